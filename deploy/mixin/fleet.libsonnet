local d = import 'dashboard.libsonnet';

function(config) d.dashboard(
  config,
  'weir-fleet',
  'weir fleet',
  [d.variable('instance', 'Instance', 'weir_link_connections{}')],
  [
    d.stat('Instances', 'short', 'count(up{} == 1)'),
    d.stat('Without a quorum', 'short', 'count(weir_peer_quorum{} == 0) or vector(0)', 'Instances that see half of the members or less.', d.bad),
    d.stat('Decided without the owner', 'percentunit', 'sum(rate(weir_peer_decisions_total{step!="exact"}[$__rate_interval])) / sum(rate(weir_peer_decisions_total{}[$__rate_interval]))', 'The share of the decisions of peers that are not exact.'),
    d.stat('Leaves', 'short', 'sum(weir_server_leaf_leaves{})', 'Processes that decide by themselves, at their upstreams.'),
    d.stat('Without an upstream', 'short', 'sum(weir_upstream_away{} or vector(0))', 'Leaves whose upstream is away.', d.bad),
    d.stat('Decided without the upstream', 'percentunit', 'sum(rate(weir_upstream_decisions_total{step!~"exact|assigned"}[$__rate_interval])) / sum(rate(weir_upstream_decisions_total{}[$__rate_interval]))', 'The share of the decisions of leaves.'),
  ],
  [
    d.row('Peers (with --peers)', [
      d.lines('Members by status', 'short', [
        d.max('weir_peer_members{}', ['status']),
        d.target('count(weir_peer_quorum{} == 0) or vector(0)', 'instances without a quorum'),
      ], 'As the instances see them: the most of any instance. An instance without a quorum sees half of the members or less, and decides by its share of the limits.'),
      d.stacked('Decisions of peers by step', 'reqps', [d.rate('weir_peer_decisions_total{}', ['step'])], 'The owner of a key makes exact decisions. Without it, an instance decides by its share of the limit, or as the rule says.'),
      d.lines('Forwarded requests by peer', 'reqps', [
        d.rate('weir_peer_requests_total{}', ['peer']),
        d.rate('weir_peer_request_failures_total{}', ['peer'], 'without an answer'),
      ], 'Requests of which another member was asked, and those without an answer in time.'),
      d.lines('Time of forwarded requests', 's', d.quantiles('weir_peer_forward_seconds{}', '', []) + [d.max('weir_peer_round_trip_seconds{}', ['peer'], 'round trip')], 'Without requests that wait. The round trip is that of a ping, smoothed: the longest to each peer.'),
      d.stacked('Keys by owner', 'percentunit', [d.target('sum by (instance) (weir_peer_slots{}) / 65536', '{{instance}}')], 'The part of all keys that each instance owns, as it sees it itself.'),
      d.lines('Moves of keys', 'short', [
        d.increase('weir_peer_claims_total{}', ['instance']),
        d.increase('weir_peer_claims_incomplete_total{}', ['instance'], 'incomplete'),
        d.increase('weir_peer_connects_total{}', ['instance'], 'connections made'),
        d.sum('weir_peer_other_rules{}', ['instance'], 'peers with other rules'),
        d.sum('weir_peer_list_differs{}', ['instance'], 'peers with another list'),
      ], 'Changes of members by which keys have moved to an instance; incomplete if a part of the state was lost. Different rules and lost connections are here too.'),
    ]),
    d.row('Upstream of leaves', [
      d.lines('Leaves and assignments', 'short', [
        d.sum('weir_server_leaf_leaves{}', ['instance'], 'leaves'),
        d.sum('weir_server_leaf_assignments{}', ['instance'], 'assignments'),
        d.sum('weir_server_leaf_buckets{}', ['instance'], 'buckets'),
      ], 'Of the upstream: processes that decide by themselves, the keys that they have assignments of, and the buckets that these share.'),
      d.lines('Exchanges and reports of leaves', 'reqps', [
        d.rate('weir_server_leaf_exchanges_total{}', ['instance'], 'exchanges'),
        d.rate('weir_server_leaf_reports_total{}', ['instance'], 'reports'),
        d.rate('weir_server_leaf_refused_total{}', ['instance'], 'refused'),
      ], 'At the upstream. An exchange renews all assignments of a leaf; it has a report for each key whose demand has changed.'),
    ]),
    d.row('Leaves (with --upstream)', [
      d.stacked('Decisions of leaves by step', 'reqps', [d.rate('weir_upstream_decisions_total{}', ['step'])], 'Exact: the upstream was asked. Assigned: by a live assignment. Last, share and rule: without the upstream.'),
      d.lines('Calls of the upstream', 'reqps', [
        d.rate('weir_upstream_asks_total{}', ['instance'], 'asks'),
        d.rate('weir_upstream_late_total{}', ['instance'], 'late'),
        d.rate('weir_upstream_exchanges_total{}', ['instance'], 'exchanges'),
        d.rate('weir_upstream_exchange_failures_total{}', ['instance'], 'exchanges without an answer'),
      ], 'Requests that a leaf asks its upstream about, those without an answer in time, and exchanges.'),
      d.lines('Keys of leaves', 'short', [
        d.sum('weir_upstream_keys{}', ['instance'], 'keys'),
        d.sum('weir_upstream_assigned_keys{}', ['instance'], 'assigned'),
        d.max('weir_upstream_away{}', ['instance'], 'away'),
      ], 'Keys that a leaf knows, those with an assignment, and 1 while its upstream is away.'),
      d.lines('Connection to the upstream', 's', [d.max('weir_upstream_round_trip_seconds{}', ['instance'], 'round trip')], 'Of a ping, smoothed.'),
    ]),
    d.row('Connections', [
      d.lines('Connections of peers and leaves', 'short', [
        d.target('sum by (instance, from) (weir_link_connections{})', '{{instance}} of {{from}}'),
        d.target('sum by (instance, from) (weir_link_waiting_requests{})', '{{instance}} of {{from}}, waiting'),
        d.target('sum by (instance, from) (rate(weir_link_busy_total{}[$__rate_interval]))', '{{instance}} of {{from}}, refused per second'),
      ], 'To each instance, the requests that wait there, and those refused because too many wait or are in progress.'),
      d.lines('Refused connections', 'short', [
        d.target('sum by (instance, peer) (increase(weir_peer_handshakes_refused_total{}[$__rate_interval]))', '{{instance}} to {{peer}}'),
        d.increase('weir_upstream_handshakes_refused_total{}', ['instance'], 'to the upstream'),
        d.target('sum by (instance, from) (increase(weir_link_refused_total{}[$__rate_interval]))', '{{instance}} of {{from}}'),
        d.target('sum by (instance, from) (increase(weir_link_slow_total{}[$__rate_interval]))', '{{instance}} of {{from}}, too slow'),
      ], 'Because of the secret, the token or the version.'),
    ]),
  ],
)
