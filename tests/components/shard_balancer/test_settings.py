"""ShardBalancer's settings as execution properties bring them."""

import pytest

from components.shard_balancer.settings import BalancerSettings
from trainer_utils.format import ConfigError


@pytest.mark.parametrize(
    ("given", "num_shards"),
    [(None, None), ("", None), ("8", 8), ("null", None), ('{"train": 3}', {"train": 3}), (2.0, 2)],
)
def test_num_shards_is_json_or_a_number_of_kubeflows(given, num_shards):
    assert BalancerSettings.from_properties({"num_shards": given}).num_shards == num_shards


@pytest.mark.parametrize("given", ["many", "{", '"8"', "1.5", "-1"])
def test_other_numbers_of_shards_are_refused(given):
    with pytest.raises(ConfigError, match="num_shards: expected"):
        BalancerSettings.from_properties({"num_shards": given})
