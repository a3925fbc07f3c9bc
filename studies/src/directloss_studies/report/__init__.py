"""What is made of results: summaries, verdicts, figures and the page that shows them."""
