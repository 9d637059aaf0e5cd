local d = import 'dashboard.libsonnet';

function(config) d.dashboard(
  config,
  'weir-serve',
  'weir serve',
  [
    d.variable('instance', 'Instance', 'weir_server_reloads_total{}'),
    d.variable('rule', 'Rule', 'weir_server_decisions_total{}'),
  ],
  [
    d.stat('Decisions', 'reqps', 'sum(rate(weir_server_decisions_total{}[$__rate_interval]))', 'Requests for tokens, of all rules.'),
    d.stat('Denied', 'percentunit', 'sum(rate(weir_server_decisions_total{decision="deny"}[$__rate_interval])) / sum(rate(weir_server_decisions_total{}[$__rate_interval]))'),
    d.stat('Waiting', 'short', 'sum(weir_server_waiting{}) + sum(weir_server_lease_waiting{} or vector(0))', 'Requests that wait for tokens or for leases.'),
    d.stat('Leased units', 'short', 'sum(weir_server_lease_units{})'),
    d.stat('Rules', 'short', 'min(weir_config_last_reload_successful{})', 'Whether the rules of the file are in force on all instances.', d.good, ['old rules', 'in force']),
    d.stat('Instances', 'short', 'count(up{} == 1)'),
  ],
  [
    d.row('Tokens', [
      d.stacked('Decisions by rule', 'reqps', [d.rate('weir_server_decisions_total{rule=~"$rule"}', ['rule', 'decision'])], 'shadow_deny: would have been denied, but the rule is in shadow mode.'),
      d.stacked('Denials by reason', 'reqps', [d.rate('weir_server_decisions_total{rule=~"$rule",decision="deny"}', ['rule', 'reason'])]),
      d.lines('Waiting', 'short', [d.sum('weir_server_waiting{rule=~"$rule"}', ['rule'])]),
      d.lines('Wait times', 's', d.quantiles('weir_server_wait_seconds{rule=~"$rule"}', '{{rule}}', ['rule'], [0.5, 0.95, 0.99]), 'Waits of requests that queued and were granted.'),
      d.lines('Candidates', 'reqps', [d.target('sum by (rule, decision) (rate(weir_server_candidate_decisions_total{rule=~"$rule"}[$__rate_interval]))', '{{rule}} would {{decision}}')], 'Decisions that the candidate quotas would have made.'),
      d.lines('Counts dropped', 'short', [d.rate('weir_server_forgotten_total{rule=~"$rule"}', ['rule'])], 'Counts dropped because --memory was full: new keys may get less than their quota.'),
    ]),
    d.row('Leases', [
      d.lines('Leased units', 'short', [
        d.sum('weir_server_lease_units{rule=~"$rule"}', ['rule']),
        d.sum('weir_server_lease_waiting{rule=~"$rule"}', ['rule'], 'waiting'),
        d.sum('weir_server_lease_keys{rule=~"$rule"}', ['rule'], 'keys'),
      ]),
      d.stacked('Requests for leases', 'reqps', [d.rate('weir_server_lease_decisions_total{rule=~"$rule"}', ['rule', 'decision', 'reason'])]),
      d.lines('Ends of leases', 'ops', [
        d.rate('weir_server_lease_ends_total{rule=~"$rule"}', ['rule', 'reason']),
        d.rate('weir_server_lease_renewals_total{rule=~"$rule"}', ['rule'], 'renewed'),
      ], 'Leases that expire were not returned: their holder has crashed, or is slower than the ttl.'),
      d.lines('Wait for leases', 's', d.quantiles('weir_server_lease_wait_seconds{rule=~"$rule"}', '{{rule}}', ['rule'], [0.5, 0.95])),
    ]),
    d.row('Serving', [
      d.stacked('Answers', 'reqps', [d.rate('weir_serve_requests_total{}', ['route', 'code'])], '499: the client left while it waited.'),
      d.lines('Connections', 'short', [
        d.target('weir_serve_connections{}', '{{instance}}'),
        d.target('rate(weir_serve_connections_shed_total{}[$__rate_interval])', '{{instance}} closed for others, per second'),
      ]),
      d.lines('Memory of counts', 'bytes', [d.sum('weir_server_memory_bytes{rule=~"$rule"}', ['rule'])]),
      d.lines('Reloads', 'short', [
        d.target('increase(weir_server_reloads_total{}[$__rate_interval])', '{{instance}} in force'),
        d.target('increase(weir_config_reload_failures_total{}[$__rate_interval])', '{{instance}} failed'),
      ]),
      d.lines('Time of a decision', 's', d.quantiles('weir_serve_decision_seconds{}', '{{instance}}', ['instance']), 'Of requests for a key that did not wait.'),
      d.lines('Use of the bounds', 'percentunit', [
        d.target('weir_serve_connections{} / on (instance) weir_serve_bound{of="connections"}', '{{instance}} connections'),
        d.target('sum by (instance) (weir_server_waiting_requests{}) / on (instance) weir_serve_bound{of="waiting"}', '{{instance}} waiting'),
        d.target('sum by (instance) (weir_server_leases{}) / on (instance) weir_serve_bound{of="leases"}', '{{instance}} leases'),
        d.target('sum by (instance) (weir_server_memory_bytes{}) / on (instance) weir_serve_bound{of="memory"}', '{{instance}} memory'),
      ], 'Of connections, waiting requests, leases and memory.'),
      d.lines('Requests by token', 'reqps', [d.rate('weir_serve_token_requests_total{}', ['token'])], 'Without a name: the token is missing or unknown.'),
      d.lines('Age of the saved state', 's', [
        d.target('time() - weir_state_last_save_timestamp_seconds{}', '{{instance}} age'),
        d.target('increase(weir_state_save_failures_total{}[$__rate_interval])', '{{instance}} failed saves'),
      ]),
    ]),
    d.row('Clients of Redis', [
      d.stacked('Commands', 'reqps', [d.rate('weir_resp_commands_total{}', ['command', 'result'])]),
      d.lines('Connections of clients of Redis', 'short', [
        d.target('weir_resp_connections{}', '{{instance}}'),
        d.target('rate(weir_resp_connections_shed_total{}[$__rate_interval])', '{{instance}} closed for others, per second'),
        d.target('rate(weir_resp_connections_refused_total{}[$__rate_interval])', '{{instance}} refused, per second'),
        d.target('sum by (instance, reason) (rate(weir_resp_connections_ended_total{}[$__rate_interval]))', '{{instance}} ended: {{reason}}, per second'),
      ], 'Ended by the server: the client reads or writes too slowly, or sends bytes that are no command.'),
    ]),
    d.row('Shared limits (with --store)', [
      d.stacked('Decisions by step', 'reqps', [d.rate('weir_store_decisions_total{}', ['step'])], 'The store makes exact decisions. An instance makes the others without it: by what the store has told last (known), by its share of the limit, or as the rule says.'),
      d.lines('Time of the store', 's', d.quantiles('weir_store_pipeline_seconds{}', '', []) + [d.target('max(weir_store_timeout_seconds{})', 'timeout')], 'Pipelines that were answered. An instance decides without the store after the timeout.'),
      d.lines('Store away', 'short', [
        d.target('weir_store_away{}', '{{instance}} away'),
        d.target('weir_store_instances{}', '{{instance}} counts instances'),
      ], '1 while an instance gets no answers of the store; and how many instances share the limits, as each counts them.'),
      d.lines('Calls of the store', 'reqps', [
        d.rate('weir_store_pipelines_total{}', ['instance'], 'pipelines'),
        d.rate('weir_store_failures_total{}', ['instance'], 'pipelines that failed'),
        d.rate('weir_store_late_total{}', ['instance'], 'late calls'),
        d.rate('weir_store_dropped_total{}', ['instance'], 'costs dropped'),
      ]),
    ], collapsed=true),
    d.row('Process', d.process),
  ],
)
