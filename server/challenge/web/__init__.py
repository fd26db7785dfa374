"""The pages and the JSON interface of a challenge site, one router a group of pages."""
