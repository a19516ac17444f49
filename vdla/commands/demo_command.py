"""x"""
NAME="demo"
HELP="x"
EXAMPLES="x"
def add_arguments(p):
    """x"""
def run(a):
    """x"""
    return 0
