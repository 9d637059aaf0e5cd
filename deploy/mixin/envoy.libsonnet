local d = import 'dashboard.libsonnet';

function(config) d.dashboard(
  config,
  'weir-envoy',
  'weir for Envoy: RLQS and RLS',
  [
    d.variable('instance', 'Instance', 'weir_rlqs_streams{}'),
    d.variable('rule', 'Rule', 'weir_server_decisions_total{}'),
  ],
  [
    d.stat('Streams', 'short', 'sum(weir_rlqs_streams{})', 'Of proxies to the rate limit quota service.'),
    d.stat('Buckets', 'short', 'sum(weir_rlqs_buckets{})', 'With an assignment.'),
    d.stat('Reports', 'reqps', 'sum(rate(weir_rlqs_reports_total{}[$__rate_interval]))', 'About the use of a bucket.'),
    d.stat('Without an answer', 'percentunit', 'sum(rate(weir_rlqs_refused_total{}[$__rate_interval])) / sum(rate(weir_rlqs_reports_total{}[$__rate_interval]))', 'The share of the reports that are invalid, forbidden, or beyond a bound.'),
    d.stat('Requests to RLS', 'reqps', 'sum(rate(weir_rls_answers_total{}[$__rate_interval]))', 'Of the rate-limit service.'),
    d.stat('Over the limit', 'percentunit', 'sum(rate(weir_rls_answers_total{code="OVER_LIMIT"}[$__rate_interval])) / sum(rate(weir_rls_answers_total{}[$__rate_interval]))', 'The share of the answers of the rate-limit service.'),
  ],
  [
    d.row('Rate limit quota service (RLQS)', [
      d.lines('Quotas for proxies', 'short', [
        d.target('weir_rlqs_streams{}', '{{instance}} streams'),
        d.target('weir_rlqs_buckets{}', '{{instance}} buckets'),
      ], 'Streams of proxies to the rate limit quota service, and buckets with an assignment.'),
      d.lines('Reports of proxies', 'reqps', [
        d.rate('weir_rlqs_reports_total{}', ['instance'], 'reports'),
        d.rate('weir_rlqs_refused_total{}', ['instance'], 'without an answer'),
      ], 'A report without an answer is invalid, forbidden, or beyond a bound.'),
      d.lines('Proxies and shared buckets', 'short', [
        d.sum('weir_server_leaf_leaves{}', ['instance'], 'leaves'),
        d.sum('weir_server_leaf_assignments{}', ['instance'], 'assignments'),
        d.sum('weir_server_leaf_buckets{}', ['instance'], 'buckets'),
      ], 'The server shares a rate out to proxies as it does to leaves: each proxy is one of them.'),
      d.lines('Use of memory', 'percentunit', [d.target('sum by (instance) (weir_server_memory_bytes{}) / on (instance) weir_serve_bound{of="memory"}', '{{instance}}')], 'The share of --memory that counts take.'),
    ]),
    d.row('Rate-limit service (RLS)', [
      d.stacked('Answers of the rate-limit service', 'reqps', [d.rate('weir_rls_answers_total{}', ['code'])], 'OK, OVER_LIMIT, or the gRPC code of an error.'),
      d.lines('Hits by rule', 'reqps', [
        d.rate('weir_rls_within_limit_total{rule=~"$rule"}', ['rule'], 'within the limit'),
        d.rate('weir_rls_near_limit_total{rule=~"$rule"}', ['rule'], 'near the limit'),
        d.rate('weir_rls_over_limit_total{rule=~"$rule"}', ['rule'], 'over the limit'),
        d.rate('weir_rls_shadow_mode_total{rule=~"$rule"}', ['rule'], 'over the limit, allowed'),
      ], 'Near the limit: beyond --rls-near-limit of it. Allowed: beyond the limit, in shadow or quota mode.'),
    ]),
  ],
)
