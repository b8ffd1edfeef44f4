"""Records taken out of all datasets, copies and unfinished runs below a folder, with a certificate.

from pipelines.tools.forget import forget

done = forget(["cat/1.jpg"], ["runs/"])
done.certificate.is_complete, done.path
"""

from pipelines.tools.forget.certificate import Certificate
from pipelines.tools.forget.run import Forgotten, Traced, forget

__all__ = ["Certificate", "Forgotten", "Traced", "forget"]
