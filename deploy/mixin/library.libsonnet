local d = import 'dashboard.libsonnet';

function(config) d.dashboard(
  config,
  'weir-library',
  'weir library',
  [
    d.variable('instance', 'Instance', '{__name__=~"weir_(inflight|client_sent_total|throttle_refusal_ratio|keyed_memory_bytes|cache_entries|pressure_ratio)"}'),
    d.variable('name', 'Name', '{__name__=~"weir_(inflight|client_sent_total|throttle_refusal_ratio|keyed_memory_bytes|cache_entries|pressure_ratio)"}'),
  ],
  [
    d.stat('Requests', 'reqps', 'sum(rate(weir_decisions_total{name=~"$name"}[$__rate_interval]))', 'Decisions about requests, of all classes.'),
    d.stat('Rejected', 'percentunit', 'sum(rate(weir_decisions_total{name=~"$name",decision="reject"}[$__rate_interval])) / sum(rate(weir_decisions_total{name=~"$name"}[$__rate_interval]))'),
    d.stat('In flight', 'short', 'sum(weir_inflight{name=~"$name"})'),
    d.stat('Waiting', 'short', 'sum(weir_waiting{name=~"$name"})'),
    d.stat('Wasted work', 'percentunit', 'sum(rate(weir_wasted_total{name=~"$name"}[$__rate_interval])) / sum(rate(weir_outcomes_total{name=~"$name"}[$__rate_interval]))', 'The share of the work that ends after its caller has left, or after its deadline.'),
    d.stat('Instances', 'short', 'count(up{} == 1)'),
  ],
  [
    d.row('Limits', [
      d.lines('Limit and units in flight', 'short', [
        d.sum('weir_limit{name=~"$name"}', ['name', 'class'], 'limit'),
        d.sum('weir_inflight{name=~"$name"}', ['name', 'class'], 'in flight'),
        d.sum('weir_abandoned{name=~"$name"}', ['name', 'class'], 'abandoned'),
      ], 'Of each class. Classes that share a limiter show the same.'),
      d.lines('Changes of the limit', 'ops', [d.rate('weir_limit_changes_total{name=~"$name"}', ['name', 'cause'])], 'By cause: docs/auto.md says what each means.'),
      d.lines('Waiting', 'short', [d.sum('weir_waiting{name=~"$name"}', ['name', 'class'])]),
      d.lines('Wait times', 's', d.quantiles('weir_wait_seconds{name=~"$name"}', '{{name}} {{class}}', ['name', 'class'], [0.5, 0.95]), 'Of requests that were admitted.'),
    ]),
    d.row('Requests', [
      d.stacked('Decisions', 'reqps', [d.rate('weir_decisions_total{name=~"$name"}', ['name', 'decision', 'reason'])]),
      d.stacked('Outcomes', 'reqps', [d.rate('weir_outcomes_total{name=~"$name"}', ['name', 'outcome'])], 'Requests that have ended, by what they tell about load.'),
      d.lines('Decisions of rules', 'reqps', [d.rate('weir_rule_decisions_total{name=~"$name"}', ['name', 'rule', 'decision'])], 'shadow_deny: the rule is in shadow mode. fail: its limiter has failed, and the request was admitted.'),
      d.lines('Refused but for Shadow', 'reqps', [d.rate('weir_shadowed_total{name=~"$name"}', ['name', 'class', 'reason'])]),
      d.lines('Wasted work', 'reqps', [d.rate('weir_wasted_total{name=~"$name"}', ['name', 'class'])], 'Requests that ended after their caller had left, or their deadline.'),
      d.lines('Patience', 's', [d.max('weir_patience_seconds{name=~"$name"}', ['name', 'class'])], 'The age of a request at which nearly all callers have left, as each limit has learnt it.'),
      d.lines('Long-lived requests', 'short', [d.sum('weir_long_lived{name=~"$name"}', ['name']), d.rate('weir_long_lived_full_total{name=~"$name"}', ['name'], 'found no place, per second')], 'Requests that have left their limit, such as event streams.'),
      d.lines('Pressure', 'percentunit', [d.sum('weir_pressure_ratio{name=~"$name"}', ['instance', 'name']), d.sum('weir_pressure_shed_ratio{name=~"$name"}', ['instance', 'name'], 'rejected')], 'The share of the time in which work waits for the processor, and the part of the requests that is rejected because of it.'),
    ]),
    d.row('Clients', [
      d.stacked('Attempts', 'reqps', [d.rate('weir_client_sent_total{name=~"$name"}', ['name'], 'sent'), d.rate('weir_client_refused_total{name=~"$name"}', ['name', 'reason'], 'not sent')]),
      d.lines('Waits that servers ask for', 's', d.quantiles('weir_client_wait_seconds{name=~"$name"}', '{{name}}', ['name'], [0.5, 0.95]), 'Of attempts that waited because the server asked for it.'),
      d.lines('Retries', 'reqps', [d.rate('weir_retries_total{name=~"$name"}', ['name']), d.rate('weir_retries_exhausted_total{name=~"$name"}', ['name'], 'denied by the budget')]),
      d.lines('Adaptive throttle', 'percentunit', [d.max('weir_throttle_refusal_ratio{name=~"$name"}', ['name'])], 'The probability that the next request is rejected before it is sent.'),
    ]),
    d.row('Caches and keys', [
      d.stacked('Lookups of caches', 'reqps', [d.rate('weir_cache_lookups_total{name=~"$name"}', ['name', 'status'])]),
      d.lines('Size of caches', 'bytes', [d.sum('weir_cache_bytes{name=~"$name"}', ['name'])]),
      d.lines('Entries removed, and fills that failed', 'ops', [
        d.rate('weir_cache_evictions_total{name=~"$name"}', ['name'], 'removed to make room'),
        d.rate('weir_cache_fills_rejected_total{name=~"$name"}', ['name'], 'fills rejected'),
        d.rate('weir_cache_fill_errors_total{name=~"$name"}', ['name'], 'fills failed'),
      ]),
      d.lines('Limits by key', 'reqps', [d.rate('weir_keyed_denied_total{name=~"$name"}', ['name'], 'denied'), d.rate('weir_keyed_forgotten_total{name=~"$name"}', ['name'], 'forgotten for lack of memory')]),
      d.lines('Memory of limits by key', 'bytes', [d.sum('weir_keyed_memory_bytes{name=~"$name"}', ['name'])]),
      d.lines('Calls that wait for tokens', 'short', [d.sum('weir_keyed_waiting{name=~"$name"}', ['name'])]),
    ]),
    d.row('Process', d.process),
  ],
)
