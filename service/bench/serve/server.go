package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/service/bench/internal/process"
)

// Names of servers beside the transports of weir serve.
const (
	netHTTP  = "net/http"
	grpcGo   = "grpc-go"
	weirGRPC = "grpc-listen" // weir serve at --grpc-listen
	weirRESP = "resp-listen" // weir serve at --resp-listen
)

// A server is one that is measured.
type server struct {
	*process.Process
	admin string // address of operators of weir serve
}

// servers are the measured servers by name.
type servers map[string]server

// start starts a process for each server.
func (s *setting) start() (servers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	starts := map[string]func() (server, error){
		netHTTP: func() (server, error) { return startFloor(self, "-floor") },
		grpcGo:  func() (server, error) { return startFloor(s.grpcFloor, "-listen") },
		weirGRPC: func() (server, error) {
			return startWeir(s.weir, "--grpc-listen", "--listen", "127.0.0.1:0", "-m", most)
		},
		weirRESP: func() (server, error) {
			return startWeir(s.weir, "--resp-listen", "--listen", "127.0.0.1:0", "-m", most)
		},
	}
	for _, name := range s.transports {
		starts[name] = func() (server, error) { return startWeir(s.weir, "--listen", "-m", most, "--transport", name) }
	}
	all := servers{}
	for name, start := range starts {
		if all[name], err = start(); err != nil {
			delete(all, name)
			all.stop()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

// most is a limit that allows every request.
const most = "1000000000"

func startFloor(path, listen string) (server, error) {
	p, err := process.Start(path, listen)
	return server{Process: p}, err
}

// startWeir starts weir serve. last is the flag of the address that is measured.
func startWeir(path, last string, args ...string) (server, error) {
	admin, err := process.FreeAddr()
	if err != nil {
		return server{}, err
	}
	p, err := process.Start(path, slices.Concat([]string{"serve", "--admin", admin, "--pprof", "--log-level", "error"}, args, []string{last})...)
	return server{p, admin}, err
}

func (s servers) stop() {
	for _, p := range s {
		p.Stop()
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
