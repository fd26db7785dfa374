"""The evaluation server: challenges with references or ratings that stay here, submissions, a leaderboard."""
