package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redisscript"
)

// A Cluster has masters, which share the slots evenly, and a replica of each.
type Cluster struct {
	Masters, Replicas []*Server

	t testing.TB
}

// StartCluster starts a Cluster. A master that does not answer for a second is replaced.
func StartCluster(t testing.TB, engine string, masters int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	start := func() *Server {
		return Start(t, engine, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no",
			"--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--cluster-port", FreePort(t))
	}
	for i := range masters {
		c.Masters, c.Replicas = append(c.Masters, start()), append(c.Replicas, start())
		c.Masters[i].Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*redisscript.Slots/masters), strconv.Itoa((i+1)*redisscript.Slots/masters-1))
	}
	for i, s := range c.Servers() {
		host, port, _ := strings.Cut(s.Addr, ":")
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		c.Masters[0].Do("CLUSTER", "MEET", host, port, s.clusterPort())
	}
	for i, s := range c.Replicas {
		id := c.Masters[i].ID()
		Until(t, "the replica follows", func() error { _, err := s.Try("CLUSTER", "REPLICATE", id); return err })
	}
	Until(t, "the cluster is ready", c.ready)
	return c
}

// Servers returns all servers.
func (c *Cluster) Servers() []*Server {
	return append(c.Masters[:len(c.Masters):len(c.Masters)], c.Replicas...)
}

// Addrs returns the addresses of all servers.
func (c *Cluster) Addrs() (addrs []string) {
	for _, s := range c.Servers() {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// ready returns nil if every server knows the state of the cluster, and every replica follows.
func (c *Cluster) ready() error {
	want := fmt.Sprint("cluster_known_nodes:", len(c.Servers()))
	for _, s := range c.Servers() {
		if info := s.Do("CLUSTER", "INFO"); !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, want) {
			return fmt.Errorf("%s: %s", s.Addr, info)
		}
		if nodes := s.Do("CLUSTER", "NODES"); strings.Count(nodes, " slave ")+strings.Count(nodes, ",slave ") != len(c.Replicas) {
			return fmt.Errorf("%s: %s", s.Addr, nodes)
		}
	}
	for _, s := range c.Masters {
		if info := s.Do("INFO", "replication"); !strings.Contains(info, "state=online") {
			return fmt.Errorf("%s: %s", s.Addr, info)
		}
	}
	return nil
}

// Owner returns the index of the first master of a key's slot.
func (c *Cluster) Owner(key string) int {
	for i := range c.Masters {
		if redisscript.Slot(key) < (i+1)*redisscript.Slots/len(c.Masters) {
			return i
		}
	}
	panic("redistest: a slot beyond the last")
}

// MoveSlot moves the slot of a key from one server to another, with its keys. It pauses
// before and after the keys have moved, while the slot belongs to both.
func (c *Cluster) MoveSlot(key string, from, to *Server, pause time.Duration) {
	c.t.Helper()
	slot := strconv.Itoa(redisscript.Slot(key))
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID())
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID())
	time.Sleep(pause)
	host, port, _ := strings.Cut(to.Addr, ":")
	for keys := from.keys(slot); len(keys) > 0; keys = from.keys(slot) {
		from.Do(append([]string{"MIGRATE", host, port, "", "0", "5000", "REPLACE", "KEYS"}, keys...)...)
	}
	time.Sleep(pause)
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", to.ID())
	from.Do("CLUSTER", "SETSLOT", slot, "NODE", to.ID())
}

// ID returns the id of a server in its Cluster.
func (s *Server) ID() string { return s.Do("CLUSTER", "MYID") }

// clusterPort returns the port of the bus of a Cluster.
func (s *Server) clusterPort() string {
	return strings.Fields(s.Do("CONFIG", "GET", "cluster-port"))[1]
}

// keys returns keys of a slot.
func (s *Server) keys(slot string) []string {
	return strings.Fields(s.Do("CLUSTER", "GETKEYSINSLOT", slot, "100"))
}
