"""One module for each dataset, and what several of them share; `registry` finds every module here."""
