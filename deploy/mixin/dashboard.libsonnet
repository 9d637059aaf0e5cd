// The layout that all dashboards have. A selector {} in a query gets the filter of its dashboard.
local prometheus = { type: 'prometheus', uid: '${datasource}' };

local graph(title, unit, targets, description, custom) = {
  type: 'timeseries',
  title: title,
  description: description,
  targets: targets,
  fieldConfig: {
    defaults: { unit: unit, min: 0, custom: { drawStyle: 'line', fillOpacity: 5, lineWidth: 1, showPoints: 'never', stacking: { group: 'A', mode: 'none' } } + custom },
    overrides: [],
  },
  options: {
    legend: { calcs: ['lastNotNull', 'max'], displayMode: 'table', placement: 'right', showLegend: true },
    tooltip: { mode: 'multi', sort: 'desc' },
  },
};

local place(panel, id, x, y, w, h) = panel { id: id, gridPos: { x: x, y: y, w: w, h: h } };

{
  // A target is a query and the legend of its lines.
  target(expr, legend=''):: { expr: expr, legendFormat: legend },

  // Targets of a metric by labels. Their values are in the legend, before a text.
  sum(series, by, text='', aggregate='sum'):: $.target('%s by (%s) (%s)' % [aggregate, std.join(', ', by), series], std.rstripChars(std.join(' ', ['{{%s}}' % label for label in by] + [text]), ' ')),
  max(series, by, text=''):: $.sum(series, by, text, 'max'),
  rate(counter, by, text=''):: $.sum('rate(%s[$__rate_interval])' % counter, by, text),
  increase(counter, by, text=''):: $.sum('increase(%s[$__rate_interval])' % counter, by, text),

  // Targets of the quantiles of a histogram, by labels, with exemplars.
  quantiles(histogram, legend, by, quantiles=[0.5, 0.99]):: [
    {
      expr: 'histogram_quantile(%g, sum by (%s) (rate(%s[$__rate_interval])))' % [q, std.join(', ', by + ['le']), std.strReplace(histogram, '{', '_bucket{')],
      legendFormat: std.lstripChars('%s p%g' % [legend, q * 100], ' '),
      exemplar: true,
    }
    for q in quantiles
  ],

  lines(title, unit, targets, description=''):: graph(title, unit, targets, description, {}),
  stacked(title, unit, targets, description=''):: graph(title, unit, targets, description, { fillOpacity: 20, stacking+: { mode: 'normal' } }),

  // A number. Steps are its colours.
  stat(title, unit, expr, description='', steps=[{ color: 'text', value: null }], texts=[]):: {
    type: 'stat',
    title: title,
    description: description,
    targets: [$.target(expr)],
    fieldConfig: {
      defaults: {
        unit: unit,
        mappings: [{ type: 'value', options: { [std.toString(i)]: { index: i, text: texts[i] } for i in std.range(0, std.length(texts) - 1) } } for _ in std.range(1, std.min(1, std.length(texts)))],
        thresholds: { mode: 'absolute', steps: steps },
      },
      overrides: [],
    },
    options: { reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false }, colorMode: 'value', graphMode: 'area', textMode: 'auto' },
  },
  bad: [{ color: 'green', value: null }, { color: 'red', value: 1 }],  // steps: red from 1
  good: [{ color: 'red', value: null }, { color: 'green', value: 1 }],  // steps: green from 1

  row(title, panels, collapsed=false):: { title: title, panels: panels, collapsed: collapsed },

  process: [
    $.lines('CPU', 'short', [$.target('rate(process_cpu_seconds_total{}[$__rate_interval])', '{{instance}}')], 'Cores in use.'),
    $.lines('Memory', 'bytes', [$.target('process_resident_memory_bytes{}', '{{instance}}')], 'Resident.'),
    $.lines('Goroutines', 'short', [$.target('go_goroutines{}', '{{instance}}')]),
  ],

  // A variable has the values of the label of its name, in series.
  variable(name, label, series):: { name: name, label: label, series: series },

  // Selectors in braces, also empty ones, get the instances and config.selector.
  dashboard(config, uid, title, variables, stats, rows):: {
    local select(expr, filter) = if filter == '' then expr else std.strReplace(std.strReplace(expr, '{', '{%s,' % filter), ',}', '}'),
    local filter = std.join(',', [m for m in [config.selector, 'instance=~"$instance"'] if m != '']),
    local finished(panel) = panel {
      datasource: prometheus,
      targets: [
        panel.targets[i] { refId: std.char(65 + i), datasource: prometheus, expr: select(super.expr, filter) }
        for i in std.range(0, std.length(panel.targets) - 1)
      ],
    },
    local height(row) = 1 + if row.collapsed then 0 else 8 * std.ceil(std.length(row.panels) / 2),
    local tops = std.foldl(function(ys, row) ys + [ys[std.length(ys) - 1] + height(row)], rows, [4]),
    local inside(row, i) = std.mapWithIndex(function(k, p) place(finished(p), 100 * (i + 1) + k + 1, 12 * (k % 2), tops[i] + 1 + 8 * std.floor(k / 2), 12, 8), row.panels),

    uid: uid,
    title: title,
    tags: ['weir'],
    schemaVersion: 39,
    version: 1,
    editable: true,
    timezone: 'browser',
    refresh: '10s',
    time: { from: 'now-30m', to: 'now' },
    annotations: { list: [] },
    links: [{ type: 'dashboards', title: 'weir', tags: ['weir'], asDropdown: true, includeVars: false, keepTime: true }],
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', current: { text: 'Prometheus', value: 'prometheus' } },
      ] + [
        {
          local definition = 'label_values(%s, %s)' % [select(v.series, config.selector), v.name],
          name: v.name,
          label: v.label,
          type: 'query',
          datasource: prometheus,
          definition: definition,
          query: { query: definition, refId: v.name },
          includeAll: true,
          multi: true,
          [if v.name != 'instance' then 'allValue']: '.*',  // all instances are those of the list: other processes are none of them
          current: { text: ['All'], value: ['$__all'] },
          refresh: 2,
          sort: 1,
        }
        for v in variables
      ],
    },
    panels: std.mapWithIndex(function(k, p) place(finished(p), k + 1, k * 24 / std.length(stats), 0, 24 / std.length(stats), 4), stats)
            + std.flattenArrays(std.mapWithIndex(function(i, row) [
              place({ type: 'row', title: row.title, collapsed: row.collapsed, panels: if row.collapsed then inside(row, i) else [] }, 100 * (i + 1), 0, tops[i], 24, 1),
            ] + if row.collapsed then [] else inside(row, i), rows)),
  },
}
