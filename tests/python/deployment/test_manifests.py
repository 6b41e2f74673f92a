"""What lies in `deploy/kubernetes` is taken by Kubernetes and by `eagleray`, and its parts name each other as they are called."""

import os
import subprocess
import sys

import kubernetes_validate
import yaml
from tests.python.deployment.commands import DEPLOY, ROOT, calls_in, parsed, tracked

FOLDER = DEPLOY / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))


def documents():
    return [(path.name, document) for path in FILES for document in yaml.safe_load_all(path.read_text())]


def of_kind(*kinds):
    return [document for _, document in documents() if document["kind"] in kinds]


def named(kind, name):
    (found,) = (document for document in of_kind(kind) if document["metadata"]["name"] == name)
    return found


def pods():
    return [
        (each["metadata"]["name"], each["spec"]["template"]) for each in of_kind("StatefulSet", "Deployment", "Job")
    ]


def containers():
    return [(name, pod, container) for name, pod in pods() for container in pod["spec"]["containers"]]


def calls():
    """Every call of `eagleray` that the manifests make: of containers, probes and hooks."""
    found = []
    for name, _, container in containers():
        if "command" not in container:
            found.append((name, ["eagleray", *container["args"]]))
        hooks = container.get("lifecycle", {}).values()
        asked = [container[key] for key in ("startupProbe", "readinessProbe", "livenessProbe") if key in container]
        found += [(name, each["exec"]["command"]) for each in [*hooks, *asked]]
    return found


def secrets_made():
    """What `secrets.sh` makes: the keys of each secret."""
    made = {}
    for line in (FOLDER / "secrets.sh").read_text().splitlines():
        words = line.replace('"', "").split()
        if words[:1] == ["apply"] and "()" not in line:
            made[words[1]] = {word.rpartition("/")[2] for word in words if word.startswith("--from-file=")}
    return made


def test_every_call_of_the_manifests_is_one_that_the_command_takes():
    found = calls()
    assert len(found) == 2 + 2 * 4
    for _, command in found:
        assert command[0] == "eagleray"
        parsed(command[1:])


def test_calls_of_the_script_that_makes_secrets_are_taken_too():
    (call,) = calls_in((FOLDER / "secrets.sh").read_text())
    assert call[:2] == ["token", "new"]
    parsed(call)


def test_kubernetes_takes_every_manifest():
    checked = [document for _, document in documents() if "kustomize" not in document["apiVersion"]]
    assert len(checked) == 4
    for document in checked:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_kustomize_is_given_all_files_but_the_example():
    (listed,) = (document["resources"] for _, document in documents() if document["kind"] == "Kustomization")
    assert set(listed) == {path.name for path in FILES} - {"kustomization.yaml", "program.yaml"}
    (image,) = (document["images"] for _, document in documents() if document["kind"] == "Kustomization")
    assert {container["image"] for _, _, container in containers()} == {image[0]["name"]}


def test_selectors_find_the_pods_that_they_mean_and_no_others():
    labels = {name: pod["metadata"]["labels"] for name, pod in pods()}
    assert len({tuple(sorted(each.items())) for each in labels.values()}) == len(labels)
    for each in of_kind("StatefulSet", "Deployment"):
        assert each["spec"]["selector"]["matchLabels"] == labels[each["metadata"]["name"]]
    head = named("StatefulSet", "eagleray-head")
    service = named("Service", head["spec"]["serviceName"])
    assert service["spec"]["selector"] == labels["eagleray-head"]
    assert head["spec"]["replicas"] == 1


def test_ports_and_the_heads_address_are_the_same_everywhere():
    service = named("Service", "eagleray-head")
    (port,) = service["spec"]["ports"]
    address = f"eagleray-head:{port['port']}"
    starts = {name: parsed(command[1:]) for name, command in calls() if command[1] == "start"}
    assert starts["eagleray-head"].head
    assert starts["eagleray-workers"].address == address
    for name, _, container in containers():
        if name in starts:
            (listens,) = container["ports"]
            # A service without an address of its own does not translate ports.
            assert starts[name].port == listens["containerPort"] == port["port"]
            assert listens["name"] == port["targetPort"]
        else:
            given = {each["name"]: each.get("value") for each in container["env"]}
            assert given["EAGLERAY_ADDRESS"] == address
    assert f"EXPOSE {port['port']}\n" in (DEPLOY / "Dockerfile").read_text()


def test_secrets_are_those_that_the_script_makes_and_lie_where_the_command_looks():
    made = secrets_made()
    assert made == {"eagleray-head": {"authority", "tokens"}, "eagleray-token": {"token"}}
    used = set()
    for name, pod, container in containers():
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        assert mounts.keys() == volumes.keys()
        ((where, secret),) = ((mounts[key], each["secret"]) for key, each in volumes.items() if "secret" in each)
        used.add(secret["secretName"])
        assert secret["defaultMode"] == 0o440, "the group may read it, and nobody else"
        assert pod["spec"]["securityContext"]["fsGroup"] == pod["spec"]["securityContext"]["runAsUser"]
        keys = made[secret["secretName"]]
        if name == "eagleray-head":
            assert parsed(container["args"]).secrets == where
        elif name == "eagleray-workers":
            assert parsed(container["args"]).token_file in {f"{where}/{key}" for key in keys}
        else:
            given = {each["name"]: each.get("value") for each in container["env"]}
            assert given["EAGLERAY_TOKEN_FILE"] in {f"{where}/{key}" for key in keys}
        assert not any(each["name"] == "EAGLERAY_TOKEN" for each in container.get("env", []))
    assert used == made.keys()


def test_nodes_have_the_time_that_they_are_told_to_take():
    for name, pod, container in containers():
        if "args" not in container or "startupProbe" not in container:
            continue
        starts = container["startupProbe"]
        assert starts["periodSeconds"] * starts["failureThreshold"] > parsed(container["args"]).wait, name
        # As long as a node may take to answer, and `eagleray stop` to end it.
        assert all(container[key]["timeoutSeconds"] > 10 for key in ("startupProbe", "readinessProbe", "livenessProbe"))
        assert pod["spec"]["terminationGracePeriodSeconds"] > parsed(["stop"]).grace_period


def test_limits_are_given_so_that_nodes_do_not_count_the_machine():
    for name, pod, container in containers():
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys(), name
        assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"], name
        assert pod["spec"]["securityContext"]["runAsNonRoot"], name


def test_every_yaml_file_of_the_repository_can_be_read():
    files = tracked("*.yaml", "*.yml")
    assert set(FILES) <= set(files)
    for path in files:
        assert list(yaml.safe_load_all(path.read_text())), path.relative_to(ROOT)


def test_the_script_for_secrets_hands_them_to_kubectl_and_keeps_none(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    # `kubectl create` shows what it was given instead of a manifest, and `apply` takes it.
    kubectl = """
    if [ "$1" = apply ]; then cat >> "$SEEN"; exit; fi
    for word in "$@"; do
        case $word in --from-file=*) echo "$4 ${word##*/} $(wc -c < "${word#*=}")" ;; --namespace) echo "$4 in a namespace" ;; esac
    done
    """
    for name, text in {"kubectl": kubectl, "eagleray": f'exec {sys.executable} -m eagleray "$@"'}.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    (tmp_path / "memory").mkdir()
    environ = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SEEN": str(tmp_path / "seen"),
        "XDG_RUNTIME_DIR": str(tmp_path / "memory"),
    }
    subprocess.run([FOLDER / "secrets.sh", "--namespace", "research"], env=environ, check=True, timeout=30)
    seen = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    given = {(name, key) for name, key, size in (words for words in seen if len(words) == 3) if int(size) > 50}
    assert given == {(name, key) for name, keys in secrets_made().items() for key in keys}
    assert sum(words[1:] == ["in", "a", "namespace"] for words in seen) == len(secrets_made())
    assert not list((tmp_path / "memory").iterdir())
