"""Answers for a site: which policy to take, what soft limits would have done, when jobs start, an agent of its own."""
