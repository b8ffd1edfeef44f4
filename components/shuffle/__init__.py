"""Records brought into another order, through files where memory does not hold them; and edited."""
