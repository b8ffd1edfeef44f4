"""What is different between two datasets, record by record, by name and content.

from pipelines.tools.diff import compare_datasets

difference = compare_datasets("datasets/4", "datasets/5")
difference.counts                 # {'added': 10, 'removed': 0, 'changed': 3, 'moved': 1, …}
print(difference)
write_page("diff.html", render_difference(difference))      # of pipelines.tools.html
"""

from pipelines.tools.diff.compare import Change, Difference, compare_datasets
from pipelines.tools.diff.page import render_difference

__all__ = ["Change", "Difference", "compare_datasets", "render_difference"]
