class Remainders:
    size: int
