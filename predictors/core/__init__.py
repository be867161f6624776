"""The foundation of every package. It imports no other module of ours."""
