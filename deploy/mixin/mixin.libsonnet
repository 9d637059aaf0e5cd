// The alerts and dashboards of weir as a mixin, for jsonnet-bundler and mixtool.
{
  _config:: {
    selector: '',  // of all series in dashboards, such as cluster="eu"
  },

  prometheusAlerts+:: std.parseYaml(importstr '../prometheus/alerts.yaml'),

  grafanaDashboards+:: {
    'weir-serve.json': (import 'serve.libsonnet')($._config),
    'weir-proxy.json': (import 'proxy.libsonnet')($._config),
    'weir-fleet.json': (import 'fleet.libsonnet')($._config),
    'weir-envoy.json': (import 'envoy.libsonnet')($._config),
    'weir-library.json': (import 'library.libsonnet')($._config),
  },
}
