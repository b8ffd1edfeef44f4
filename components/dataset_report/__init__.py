"""DatasetReport: one page of HTML that shows people what is in a dataset."""
