#!/usr/bin/env bash
# Makes the secrets of a cluster and gives them to Kubernetes: `eagleray-head` for the head alone, `eagleray-token` for whoever joins. They lie on
# no disk but in memory here, and are gone afterwards. Arguments go to kubectl: deploy/kubernetes/secrets.sh --namespace research
#
# Called again it replaces them: then start the head and the workers again, which ends the cluster:
#
#     kubectl rollout restart statefulset/eagleray-head deployment/eagleray-workers
set -euo pipefail

folder=$(mktemp --directory --tmpdir="${XDG_RUNTIME_DIR:-/dev/shm}")
trap 'rm -rf "$folder"' EXIT
eagleray token new "$folder/cluster" > /dev/null

apply() {
    local name=$1
    shift
    kubectl create secret generic "$name" "$@" --dry-run=client --output=yaml | kubectl apply --filename=-
}
apply eagleray-head --from-file="$folder/cluster/authority" --from-file="$folder/cluster/tokens" "$@"
apply eagleray-token --from-file="$folder/cluster/token" "$@"
