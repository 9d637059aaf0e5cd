package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/weir-go/weir/service/bench/internal/process"
)

// haproxyConf keeps connections to the origin, as the others do.
const haproxyConf = `global
	nbthread %[1]d
	maxconn 4096
defaults
	mode http
	timeout connect 5s
	timeout client 60s
	timeout server 60s
	option forwardfor
	http-reuse always
frontend front
	bind %[2]s
	default_backend origin
backend origin
	server origin %[3]s
`

func haproxy(dir, origin string) func(bool) (*process.Process, error) {
	return configured(dir, "haproxy.cfg", func(addr string, tls bool) (string, error) {
		if !tls {
			return fmt.Sprintf(haproxyConf, runtime.NumCPU(), addr, origin), nil
		}
		pair := filepath.Join(dir, "haproxy.pem") // certificate and key
		var text []byte
		cert, key := certificatePaths(dir)
		for _, name := range []string{cert, key} {
			part, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			text = append(text, part...)
		}
		return fmt.Sprintf(haproxyConf, runtime.NumCPU(), addr+" ssl crt "+pair+" alpn h2,http/1.1", origin), os.WriteFile(pair, text, 0o600)
	}, func(file string) []string { return []string{"haproxy", "-db", "-q", "-f", file} })
}

// caddyConf logs no access, as the others.
const caddyConf = `{
	admin off
	auto_https off
	log {
		level ERROR
	}
}
%s {
	%s
	reverse_proxy %s {
		transport http {
			keepalive_idle_conns_per_host 256
			compression off
		}
	}
}
`

func caddy(dir, origin string) func(bool) (*process.Process, error) {
	return configured(dir, "Caddyfile", func(addr string, tls bool) (string, error) {
		if !tls {
			return fmt.Sprintf(caddyConf, "http://"+addr, "", origin), nil
		}
		cert, key := certificatePaths(dir)
		return fmt.Sprintf(caddyConf, "https://"+addr, "tls "+cert+" "+key, origin), nil
	}, func(file string) []string {
		return []string{"caddy", "run", "--adapter", "caddyfile", "--config", file}
	})
}

// envoyConf speaks HTTP/1.1 and, over TLS, HTTP/2.
const envoyConf = `
static_resources:
  listeners:
  - address: {socket_address: {address: %[1]s, port_value: %[2]s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          use_remote_address: true
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: origin}}]}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
%[3]s  clusters:
  - name: origin
    circuit_breakers: {thresholds: [{max_connections: 4096, max_pending_requests: 4096, max_requests: 4096}]}
    load_assignment:
      cluster_name: origin
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[4]s, port_value: %[5]s}}}}]}]
`

const envoyTLS = `      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}]
`

func envoy(binary, dir, origin string) func(bool) (*process.Process, error) {
	return configured(dir, "envoy.yaml", func(addr string, tls bool) (string, error) {
		more := ""
		if tls {
			cert, key := certificatePaths(dir)
			more = fmt.Sprintf(envoyTLS, cert, key)
		}
		at, to := netip.MustParseAddrPort(addr), netip.MustParseAddrPort(origin)
		return fmt.Sprintf(envoyConf, at.Addr(), strconv.Itoa(int(at.Port())), more, to.Addr(), strconv.Itoa(int(to.Port()))), nil
	}, func(file string) []string {
		return []string{binary, "-c", file, "--concurrency", strconv.Itoa(runtime.NumCPU()), "--use-dynamic-base-id", "-l", "error"}
	})
}

// configured starts a proxy with a file, at a free address.
func configured(dir, name string, text func(addr string, tls bool) (string, error), command func(file string) []string) func(bool) (*process.Process, error) {
	return func(tls bool) (*process.Process, error) {
		addr, err := process.FreeAddr()
		if err != nil {
			return nil, err
		}
		conf, err := text(addr, tls)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			return nil, err
		}
		args := command(file)
		return process.StartAt(addr, args[0], args[1:]...)
	}
}
