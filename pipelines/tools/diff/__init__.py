"""What is different between two datasets, record by record, by name and content.

from pipelines.tools.diff import compare_datasets

difference = compare_datasets("datasets/4", "datasets/5")
difference.counts                 # {'added': 10, 'removed': 0, 'changed': 3, 'moved': 1, …}
print(difference)

`page.render_difference` makes a page of it, which takes jinja2.
"""

from pipelines.tools.diff.compare import Change, Difference, compare_datasets

__all__ = ["Change", "Difference", "compare_datasets"]
