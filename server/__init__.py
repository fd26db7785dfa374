"""The web side: people's ratings are collected here. It may import the other packages; none imports it."""
