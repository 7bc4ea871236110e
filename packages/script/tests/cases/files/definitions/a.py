LIMIT = 3

def greet(name):
    return name

class UserService:
    def run(self):
        return 1
