"""A genetic algorithm whose individuals are judged by a pool of actors."""

import random

import ray
from deap import algorithms, base, creator, tools
from ray.util.multiprocessing import Pool

creator.create("Fitness", base.Fitness, weights=(1.0,))
creator.create("Individual", list, fitness=creator.Fitness)


def ones(individual):
    return (sum(individual),)


if __name__ == "__main__":
    random.seed(1)
    ray.init(num_cpus=2)
    toolbox = base.Toolbox()
    toolbox.register("bit", random.randint, 0, 1)
    toolbox.register("individual", tools.initRepeat, creator.Individual, toolbox.bit, 20)
    toolbox.register("population", tools.initRepeat, list, toolbox.individual)
    toolbox.register("evaluate", ones)
    toolbox.register("mate", tools.cxTwoPoint)
    toolbox.register("mutate", tools.mutFlipBit, indpb=0.05)
    toolbox.register("select", tools.selTournament, tournsize=3)
    with Pool(2) as pool:
        toolbox.register("map", pool.map)
        last, _ = algorithms.eaSimple(toolbox.population(n=40), toolbox, cxpb=0.5, mutpb=0.2, ngen=12, verbose=False)
    best = max(sum(individual) for individual in last)
    assert best >= 18, best
    print("deap ran on eagleray", ray.__name__, best)
