local d = import 'dashboard.libsonnet';

function(config) d.dashboard(
  config,
  'weir-proxy',
  'weir proxy',
  [
    d.variable('instance', 'Instance', 'weir_proxy_limit{}'),
    d.variable('class', 'Class', 'weir_proxy_class_requests_total{}'),
  ],
  [
    d.stat('Requests', 'reqps', 'sum(rate(weir_proxy_decisions_total{}[$__rate_interval]))', 'Decisions about requests, of all classes.'),
    d.stat('Rejected', 'percentunit', 'sum(rate(weir_proxy_decisions_total{decision="reject"}[$__rate_interval])) / sum(rate(weir_proxy_decisions_total{}[$__rate_interval]))', 'The share of requests that the limit rejects.'),
    d.stat('In flight', 'short', 'sum(weir_proxy_class_inflight{})', 'Requests in flight, of what the limits allow.'),
    d.stat('Waiting', 'short', 'sum(weir_proxy_class_waiting{})'),
    d.stat('Origins out', 'short', 'sum(weir_proxy_origin_state{state=~"ejected|held"})', 'Origins that get no requests, because they fail.', d.bad),
    d.stat('Files', 'short', 'min(weir_proxy_rules_last_reload_successful{} or vector(1)) * min(weir_proxy_access_last_reload_successful{} or vector(1))', 'Whether rules, tokens and certificates are in force on all instances.', d.good, ['old content', 'in force']),
  ],
  [
    d.row('Limits', [
      d.lines('Limit and requests in flight', 'short', [
        d.sum('weir_proxy_class_limit{class=~"$class"}', ['class'], 'limit'),
        d.sum('weir_proxy_class_inflight{class=~"$class"}', ['class'], 'in flight'),
        d.sum('weir_proxy_class_bound{class=~"$class",of="min_limit"}', ['class'], 'lower bound'),
      ], 'The limit of each class that has one, and the requests that it counts.'),
      d.stacked('Changes of the limit', 'ops', [d.rate('weir_proxy_limit_changes_total{}', ['cause'])], 'By cause: docs/auto.md says what each means.'),
      d.lines('Waiting', 'short', [
        d.sum('weir_proxy_class_waiting{class=~"$class"}', ['class']),
        d.sum('weir_proxy_class_bound{class=~"$class",of="queue"}', ['class'], 'queue'),
      ], 'Requests in the queue of each limit, and the length of the queue.'),
      d.lines('Wait times', 's', d.quantiles('weir_proxy_class_wait_seconds{class=~"$class"}', '{{class}}', ['class'], [0.5, 0.95]), 'Of requests that were admitted.'),
    ]),
    d.row('Requests', [
      d.stacked('Decisions', 'reqps', [d.target('sum by (decision, reason) (rate(weir_proxy_class_decisions_total{class=~"$class"}[$__rate_interval])) > 0', '{{decision}} {{reason}}')], 'deny is by a rule, reject by a limit.'),
      d.stacked('Requests by class', 'reqps', [d.rate('weir_proxy_class_requests_total{class=~"$class"}', ['class'])]),
      d.lines('Wasted work', 'percentunit', [d.target('sum by (class) (rate(weir_proxy_class_wasted_total{class=~"$class"}[$__rate_interval])) / sum by (class) (rate(weir_proxy_class_outcomes_total{class=~"$class"}[$__rate_interval]))', '{{class}}')], 'The share of the work that ends after its client has left, or after its deadline.'),
      d.lines('Patience', 's', [d.max('weir_proxy_class_patience_seconds{class=~"$class"}', ['class'])], 'The age of a request at which nearly all clients have left, as each limit has learnt it.'),
    ]),
    d.row('Origins', [
      d.lines('Response times', 's', d.quantiles('weir_proxy_origin_duration_seconds{}', '{{instance}}', ['instance'], [0.5, 0.95, 0.99]), 'From the request to the origin until the header of its answer.'),
      d.stacked('Answers', 'reqps', [d.rate('weir_proxy_origin_answers_total{}', ['origin', 'sign'])], 'By what they tell about the load of the origin.'),
      d.lines('Requests at each origin', 'short', [d.sum('weir_proxy_origin_inflight{}', ['origin'])]),
      d.lines('Origins out', 'short', [d.max('weir_proxy_origin_state{state!="in"}', ['origin', 'state'])], '1 while an origin gets no requests (ejected, held), or fewer than its share (starting).'),
      d.stacked('Errors', 'reqps', [d.rate('weir_proxy_origin_errors_total{}', ['reason'])], 'Answers of the proxy because the origin failed.'),
      d.lines('Requests that went to another origin', 'reqps', [d.rate('weir_proxy_origin_retried_total{}', ['origin'])], 'Because one could not be reached.'),
      d.lines('Limit of each origin', 'short', [
        d.sum('weir_proxy_origin_limit{}', ['origin']),
        d.target('max by (instance) (weir_proxy_origin_limit_min{})', 'lower bound at {{instance}}'),
      ], 'The adaptive limits of an origin, added up. With a number as --limit, there are none.'),
      d.lines('Ejections', 'reqps', [d.rate('weir_proxy_origin_ejections_total{}', ['origin', 'cause'])], 'How often an origin was taken out, by cause.'),
    ]),
    d.row('Rules and caches', [
      d.stacked('Decisions of rules', 'reqps', [d.rate('weir_proxy_rule_decisions_total{}', ['rule', 'decision'])], 'would_deny: the rule is in shadow mode.'),
      d.stacked('Caches', 'reqps', [d.rate('weir_proxy_cache_requests_total{class=~"$class"}', ['class', 'result'])]),
    ]),
    d.row('Connections and long-lived exchanges', [
      d.lines('Connections', 'short', [
        d.sum('weir_proxy_connections{}', ['instance']),
        d.sum('weir_proxy_connections_max{}', ['instance'], 'bound'),
      ]),
      d.lines('Connections shed and refused', 'ops', [
        d.rate('weir_proxy_connections_shed_total{}', ['instance'], 'shed'),
        d.rate('weir_proxy_connections_refused_total{}', ['instance'], 'refused'),
      ], 'Idle ones that made room for others, and new ones that found none.'),
      d.lines('Long-lived exchanges', 'short', [
        d.sum('weir_proxy_long_lived{}', ['instance']),
        d.sum('weir_proxy_long_lived_max{}', ['instance'], 'bound'),
      ], 'WebSockets, event streams, slow downloads and requests that hang.'),
      d.lines('Long-lived exchanges that began', 'ops', [
        d.rate('weir_proxy_long_lived_total{}', ['why']),
        d.rate('weir_proxy_long_lived_full_total{}', ['instance'], 'full'),
      ], 'full: they stayed in the limit, because there were too many.'),
      d.lines('Abandoned requests', 'short', [d.sum('weir_proxy_abandoned{}', ['instance'])], 'Their client has left, and the origin has not answered.'),
    ]),
    d.row('Process', d.process + [
      d.lines('Lines of the log that were lost', 'ops', [d.target('rate(weir_log_lines_lost_total{}[$__rate_interval])', '{{instance}}')], 'Because its reader is too slow, or has ended.'),
    ]),
  ],
)
