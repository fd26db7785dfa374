"""The processes that check and evaluate submissions, and the queue that wakes them."""
