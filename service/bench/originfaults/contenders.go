package main

import (
	"fmt"
	"os"

	"github.com/weir-go/weir/service/bench/internal/process"
)

// A contender is a proxy. All wait two seconds for an answer.
type contender struct {
	name   string
	binary string
	start  func(origins []*origin) (*process.Process, error)
}

func contenders(weir, envoy, dir string) []contender {
	return []contender{
		{"weir proxy", weir, weirProxy(weir)},
		{"weir proxy, checks", weir, weirProxy(weir, "--health-path", "/healthz", "--health-interval", "1s")},
		{"nginx", "nginx", nginx(dir)},
		{"HAProxy, checks", "haproxy", haproxy(dir)},
		{"Envoy", envoy, envoyProxy(envoy, dir, "")},
		{"Envoy, checks", envoy, envoyProxy(envoy, dir, envoyChecks)},
	}
}

func weirProxy(path string, flags ...string) func([]*origin) (*process.Process, error) {
	return func(origins []*origin) (*process.Process, error) {
		args := []string{"proxy", "--timeout", "2s", "--admin", "127.0.0.1:0", "--log-level", "error", "--drain-delay", "0s"}
		for _, o := range origins {
			args = append(args, "--origin", "http://"+o.addr)
		}
		return process.Start(path, append(append(args, flags...), "--listen")...)
	}
}

// nginxConf has the defaults but for the time-outs, the choice of the origin, and connections that are kept.
const nginxConf = `worker_processes 1;
error_log stderr crit;
pid %[1]s/nginx.pid;
daemon off;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	upstream origins { least_conn; %[2]s keepalive 256; }
	server {
		listen %[3]s;
		location / {
			proxy_pass http://origins;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_connect_timeout 2s;
			proxy_read_timeout 2s;
		}
	}
}
`

func nginx(dir string) func([]*origin) (*process.Process, error) {
	return func(origins []*origin) (*process.Process, error) {
		servers := ""
		for _, o := range origins {
			servers += fmt.Sprintf("server %s; ", o.addr)
		}
		return configured(path(dir, "nginx", origins), func(in, addr string) string { return fmt.Sprintf(nginxConf, in, servers, addr) },
			func(in, file string) []string { return []string{"nginx", "-p", in, "-c", file} })
	}
}

// haproxyConf repeats a request, by default only if there is no connection.
const haproxyConf = `global
	nbthread 1
defaults
	mode http
	timeout connect 2s
	timeout client 30s
	timeout server 2s
	timeout queue 5s
	retries 1
	option redispatch 1
	retry-on conn-failure empty-response response-timeout
	option httpchk GET /healthz
	default-server check inter 1s fall 2 rise 1
frontend front
	bind %s
	default_backend origins
backend origins
	balance leastconn
%s`

func haproxy(dir string) func([]*origin) (*process.Process, error) {
	return func(origins []*origin) (*process.Process, error) {
		servers := ""
		for i, o := range origins {
			servers += fmt.Sprintf("\tserver o%d %s\n", i, o.addr)
		}
		return configured(path(dir, "haproxy", origins), func(_, addr string) string { return fmt.Sprintf(haproxyConf, addr, servers) },
			func(_, file string) []string { return []string{"haproxy", "-db", "-q", "-f", file} })
	}
}

// envoyConf repeats a request once at another origin. By default, Envoy ejects at most a tenth of the origins, and repeats three
// requests at a time; with one of three origins dead, a fifth of the requests fails then.
const envoyConf = `
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: "/"}
                route:
                  cluster: origins
                  timeout: 4s
                  retry_policy:
                    retry_on: "connect-failure,refused-stream,reset"
                    num_retries: 1
                    per_try_timeout: 2s
                    retry_host_predicate:
                    - name: envoy.retry_host_predicates.previous_hosts
                      typed_config: {"@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate}
                    host_selection_retry_max_attempts: 3
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: origins
    connect_timeout: 2s
    lb_policy: LEAST_REQUEST
    outlier_detection: {max_ejection_percent: 100, interval: 1s}
    circuit_breakers: {thresholds: [{max_retries: 100}]}
%s    load_assignment:
      cluster_name: origins
      endpoints:
      - lb_endpoints:
%s`

const envoyChecks = `    health_checks:
    - timeout: 1s
      interval: 1s
      unhealthy_threshold: 2
      healthy_threshold: 1
      http_health_check: {path: /healthz}
`

func envoyProxy(binary, dir, checks string) func([]*origin) (*process.Process, error) {
	return func(origins []*origin) (*process.Process, error) {
		endpoints := ""
		for _, o := range origins {
			host, port := split(o.addr)
			endpoints += fmt.Sprintf("        - endpoint: {address: {socket_address: {address: %s, port_value: %s}}}\n", host, port)
		}
		return configured(path(dir, "envoy", origins), func(_, addr string) string {
			_, port := split(addr)
			return fmt.Sprintf(envoyConf, port, checks, endpoints)
		}, func(_, file string) []string {
			return []string{binary, "-c", file, "--concurrency", "1", "--use-dynamic-base-id", "-l", "error"}
		})
	}
}

// configured starts a proxy with a file.
func configured(in string, text func(in, addr string) string, command func(in, file string) []string) (*process.Process, error) {
	addr, err := process.FreeAddr()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(in, 0o700); err != nil {
		return nil, err
	}
	file := in + "/conf.yaml"
	if err := os.WriteFile(file, []byte(text(in, addr)), 0o600); err != nil {
		return nil, err
	}
	args := command(in, file)
	return process.StartAt(addr, args[0], args[1:]...)
}
