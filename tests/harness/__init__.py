"""What the tests share: Markdown rule tests, the documentation of rules as tests, and the properties of fixes."""
