package main

// checkRules are rules of which a key can match several.
const checkRules = `
apply: all
rules:
  - {name: logins, glob: "login:*", rate: 5/m, burst: 10, queue: 20, max_wait: 10s, candidate: {rate: 1/m, algorithm: sliding}}
  - {name: jobs, regex: "^(job|login):", concurrency: {limit: 2}, per: rule, mode: shadow}
`
