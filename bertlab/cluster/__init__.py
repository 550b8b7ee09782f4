"""Commands as jobs of a cluster's queue: what is asked for, what the queue says of it, and what looks after a job on its node.

``submission`` writes a folder and queues it as one array through submitit; ``queue`` asks SLURM; ``job`` runs on the node.
"""
