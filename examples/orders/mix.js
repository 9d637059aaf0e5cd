// The same load as mix.targets, for k6: k6 run -e RATE=400 -e DURATION=30s examples/orders/mix.js
import http from 'k6/http';
import exec from 'k6/execution';

const url = __ENV.URL || 'http://127.0.0.1:8000';
const rate = Number(__ENV.RATE || 400); // requests a second
const duration = __ENV.DURATION || '30s';

// An arrival rate is an open loop: an iteration begins when it is due, whatever became of earlier ones.
const route = (share, name) => ({
  executor: 'constant-arrival-rate', exec: name, duration,
  rate: Math.round(rate * share), timeUnit: '1s', preAllocatedVUs: Math.round(rate * share) + 50,
});
export const options = {
  scenarios: { catalog: route(0.3, 'catalog'), order: route(0.5, 'order'), customer: route(0.2, 'customer') },
  summaryTrendStats: ['count', 'med', 'p(95)', 'max'],
  // A threshold makes k6 report a part of the requests: served ones, by route.
  thresholds: Object.fromEntries(['catalog', 'order', 'customer'].map((name) =>
    [`http_req_duration{scenario:${name},expected_response:true}`, ['p(95)<1000']])),
};

const params = { timeout: '1s' };
export const catalog = () => http.get(`${url}/catalog`, params);
export const order = () => http.post(`${url}/orders?customer=${id()}&product=42`, null, params);
export const customer = () => http.get(`${url}/customers/${id()}`, params);
const id = () => exec.scenario.iterationInTest % 1000 + 1;
