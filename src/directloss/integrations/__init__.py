"""Parts for other packages' training loops: a module for each package, which imports it. Nothing else imports them."""
