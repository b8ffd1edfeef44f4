"""Records taken out of all datasets below a folder, with a certificate.

from pipelines.tools.forget import Forgetting

found = Forgetting.find(["cat/1.jpg"], ["runs/"])       # nothing is changed yet
found.carry_out()
found.certificate["complete"], found.path
"""

from pipelines.tools.forget.run import Forgetting

__all__ = ["Forgetting"]
