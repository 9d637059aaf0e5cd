// Requests at a constant rate, open loop, to a server that lets some of them in.
// The thresholds are what must hold; if one does not, k6 fails.
import http from 'k6/http';
import { check } from 'k6';
import { Counter } from 'k6/metrics';

const admitted = new Counter('admitted');
const denied = new Counter('denied');

http.setResponseCallback(http.expectedStatuses(200, 429));

export const options = {
  scenarios: {
    constant: {
      executor: 'constant-arrival-rate',
      rate: 60,
      timeUnit: '1s',
      duration: '3s',
      preAllocatedVUs: 20,
      gracefulStop: '5s',
    },
  },
  thresholds: {
    checks: ['rate == 1'],
    http_req_failed: ['rate == 0'],
    admitted: ['count >= 10'],
    denied: ['count >= 1'],
  },
};

export default function () {
  const res = http.get(__ENV.TARGET);
  const left = /^"per-key";r=(\d+);t=1$/.exec(res.headers['Ratelimit']);
  check(res, {
    'the policy is told': (r) => r.headers['Ratelimit-Policy'] === '"per-key";q=20;w=1',
    'what is left is told': () => left !== null && Number(left[1]) < 10,
  });
  if (res.status === 200) {
    admitted.add(1);
    check(res, { 'the handler answers': (r) => r.body === 'hello\n' });
    return;
  }
  denied.add(1);
  check(res, {
    'when to come back is told': (r) => r.headers['Retry-After'] === '1',
    'nothing is left': () => left !== null && left[1] === '0',
    'the problem is told': (r) =>
      r.headers['Content-Type'] === 'application/problem+json' &&
      r.json('status') === 429 && r.json('reason') === 'over_rate' && r.json('violated-policies.0') === 'per-key',
  });
}
