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
        d.target('sum by (instance) (rate(weir_rlqs_reports_total{}[$__rate_interval]))', '{{instance}} reports'),
        d.target('sum by (instance) (rate(weir_rlqs_refused_total{}[$__rate_interval]))', '{{instance}} without an answer'),
      ], 'A report without an answer is invalid, forbidden, or beyond a bound.'),
      d.lines('Proxies and shared buckets', 'short', [
        d.target('sum by (instance) (weir_server_leaf_leaves{})', '{{instance}} leaves'),
        d.target('sum by (instance) (weir_server_leaf_assignments{})', '{{instance}} assignments'),
        d.target('sum by (instance) (weir_server_leaf_buckets{})', '{{instance}} buckets'),
      ], 'The server shares a rate out to proxies as it does to leaves: each proxy is one of them.'),
      d.lines('Use of memory', 'percentunit', [d.target('sum by (instance) (weir_server_memory_bytes{}) / on (instance) weir_serve_bound{of="memory"}', '{{instance}}')], 'The share of --memory that counts take.'),
    ]),
    d.row('Rate-limit service (RLS)', [
      d.stacked('Answers of the rate-limit service', 'reqps', [d.target('sum by (code) (rate(weir_rls_answers_total{}[$__rate_interval]))', '{{code}}')], 'OK, OVER_LIMIT, or the gRPC code of an error.'),
      d.lines('Hits by rule', 'reqps', [
        d.target('sum by (rule) (rate(weir_rls_within_limit_total{rule=~"$rule"}[$__rate_interval]))', '{{rule}} within the limit'),
        d.target('sum by (rule) (rate(weir_rls_near_limit_total{rule=~"$rule"}[$__rate_interval]))', '{{rule}} near the limit'),
        d.target('sum by (rule) (rate(weir_rls_over_limit_total{rule=~"$rule"}[$__rate_interval]))', '{{rule}} over the limit'),
        d.target('sum by (rule) (rate(weir_rls_shadow_mode_total{rule=~"$rule"}[$__rate_interval]))', '{{rule}} over the limit, allowed'),
      ], 'Near the limit: beyond --rls-near-limit of it. Allowed: beyond the limit, in shadow or quota mode.'),
    ]),
  ],
)
