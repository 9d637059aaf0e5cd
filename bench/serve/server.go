package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Names of servers beside the transports of weir serve.
const (
	netHTTP  = "net/http"
	grpcGo   = "grpc-go"
	weirGRPC = "grpc-listen" // weir serve at --grpc-listen
	weirRESP = "resp-listen" // weir serve at --resp-listen
)

// servers are processes by name.
type servers map[string]*process

// start starts a process for each server.
func (s *setting) start() (servers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	all := servers{}
	add := func(name string, p *process, startErr error) {
		if err = startErr; err == nil {
			all[name] = p
		}
	}
	starts := map[string]func() (*process, error){
		netHTTP: func() (*process, error) { return start(self, "-floor") },
		grpcGo:  func() (*process, error) { return start(s.grpcFloor, "-listen") },
		weirGRPC: func() (*process, error) {
			return startWeir(s.weir, "--grpc-listen", "--listen", "127.0.0.1:0", "-m", most)
		},
		weirRESP: func() (*process, error) {
			return startWeir(s.weir, "--resp-listen", "--listen", "127.0.0.1:0", "-m", most)
		},
	}
	for _, name := range s.transports {
		starts[name] = func() (*process, error) { return startWeir(s.weir, "--listen", "-m", most, "--transport", name) }
	}
	for name, start := range starts {
		p, startErr := start()
		if add(name, p, startErr); err != nil {
			all.stop()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

// most is a limit that allows every request.
const most = "1000000000"

// startWeir starts weir serve. last is the flag of the address that is measured.
func startWeir(path, last string, args ...string) (*process, error) {
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := start(path, slices.Concat([]string{"serve", "--admin", admin, "--pprof", "--log-level", "error"}, args, []string{last})...)
	if err != nil {
		return nil, err
	}
	p.admin = admin
	return p, nil
}

func (s servers) stop() {
	for _, p := range s {
		p.stop()
	}
}

// serveFloor reads and answers as much as weir serve does, without deciding
// anything.
func serveFloor(addr string) error {
	one := []byte(`{"request_id":"00000000-0000-8000-8000-000000000000"}` + "\n")
	many := []byte(`{"ok":true,"results":[` + strings.Repeat(`{"ok":true,"remaining":999999999},`, batchSize) + "]}\n")
	srv := &http.Server{Addr: addr, Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = []string{"application/json"}
		if r.Method != http.MethodPost {
			w.Write(one)
			return
		}
		io.Copy(io.Discard, r.Body)
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(many))}
		w.Write(many)
	})}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return srv.ListenAndServe()
}
