package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// MasterName is the name of the master that sentinels know.
const MasterName = "main"

// A Pair is a master and its replica, which a sentinel watches.
type Pair struct {
	Master, Replica, Sentinel *Server
}

// StartPair starts a Pair with additional arguments of the servers. The replica follows, and
// the sentinel knows it.
func StartPair(t testing.TB, engine string, args ...string) *Pair {
	t.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	return Watch(t, Start(t, engine, args...), Start(t, engine, args...))
}

// Watch has a server follow a master, and starts a sentinel for both.
func Watch(t testing.TB, master, replica *Server) *Pair {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr, ":")
	replica.Do("REPLICAOF", host, port)
	p := &Pair{Master: master, Replica: replica, Sentinel: startSentinel(t, master)}
	Until(t, "the replica follows, and the sentinel knows it", func() error {
		info := master.Do("INFO", "replication")
		replicas, err := p.Sentinel.Try("SENTINEL", "REPLICAS", MasterName)
		if _, port, _ := strings.Cut(replica.Addr, ":"); err != nil || !strings.Contains(replicas, port) || !strings.Contains(info, "state=online") {
			return fmt.Errorf("%v, %v, %s", err, replicas, info)
		}
		return nil
	})
	return p
}

// startSentinel starts a sentinel, alone, for a master.
func startSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr, ":")
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 5000\n", MasterName, host, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Start(t, "redis-server", file, "--sentinel")
}
