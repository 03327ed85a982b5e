"""What runs inside a measured process. Imports torch, numpy and the standard library, nothing of ours."""
