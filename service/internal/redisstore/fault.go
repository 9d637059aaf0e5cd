package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// answered reports whether an error is an answer of the server.
func answered(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// refused reports whether the user may not run a command.
func refused(err error) bool { return answered(err) && strings.HasPrefix(err.Error(), "NOPERM") }

// noKey reports whether the user may not use a key.
func noKey(err error) bool {
	return refused(err) && strings.Contains(err.Error(), "access") && strings.Contains(err.Error(), "key")
}

// stuck reports whether the server refuses all writes.
func stuck(err error) bool {
	return slices.ContainsFunc([]string{"OOM", "MISCONF", "READONLY", "NOREPLICAS", "LOADING", "MASTERDOWN"}, func(word string) bool {
		return strings.HasPrefix(err.Error(), word+" ")
	})
}

// unknown returns the Finding for what a user may not ask for, which weir serve does not need.
func unknown(what string, err error, permission string) Finding {
	if refused(err) {
		return Finding{What: what, Level: Warning, Value: "unknown", Advice: "the ACL user may not ask: check it yourself, or give the user " + permission + " meanwhile"}
	}
	return broken(what, err)
}

// advices say what to do about errors that have one of some texts. The first that fits counts.
var advices = []struct {
	texts  []string
	advice string
}{
	{[]string{"NOAUTH", "WRONGPASS", "invalid password", "AUTH"}, "give the user and the password of the store in $WEIR_STORE: redis://user:password@host:6379/0"},
	{[]string{"cluster support disabled"}, "the server is not a Cluster: remove cluster=true from the URL"},
	{[]string{"CLUSTERDOWN"}, "a part of the slots has no master: see CLUSTER NODES"},
	{[]string{"LOADING"}, "the server reads its data after a start: try again"},
	{[]string{"BUSY "}, "another script runs for too long: end it by SCRIPT KILL, and find the client that runs it"},
	{[]string{"OOM "}, "the server is full: raise its maxmemory, or remove other data"},
	{[]string{"READONLY"}, "the server is a replica: use its master"},
	{[]string{"MISCONF"}, "the server cannot save its data and refuses writes: look at its log and its disk"},
	{[]string{"all sentinels"}, "no Sentinel knows a master of this name: compare master_name with SENTINEL MASTERS, and check host, port and firewalls"},
	{[]string{"DB index"}, "the path of the URL is the number of a database: 0, or less than the server's databases"},
	{[]string{"NOREPLICAS"}, "the server refuses writes while it has fewer replicas than min-replicas-to-write: look at its replicas"},
	{[]string{"x509", "tls:", "certificate"}, "compare the scheme (rediss with TLS, redis without) and the parameters ca, cert and key"},
	{[]string{"no such host"}, "compare the host of the URL"},
	{[]string{"connection refused"}, "start the server, or compare host and port of the URL"},
	{[]string{"EOF", "connection reset"}, "the server ends connections: with TLS, the scheme is rediss; without, bind and protected-mode of the server must allow this machine"},
}

// broken returns the Finding for an error, with what to do about it.
func broken(what string, err error) Finding {
	f := Finding{What: what, Level: Failure, Value: plain(err).Error(), Advice: "see the log of the server"}
	for _, a := range advices {
		if slices.ContainsFunc(a.texts, func(text string) bool { return strings.Contains(f.Value, text) }) {
			f.Advice = a.advice
			return f
		}
	}
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		f.Advice = "no answer in time: check host, port, firewalls and TLS (the scheme rediss), and whether the server is busy (SLOWLOG GET)"
	}
	return f
}

// sorted joins words in order.
func sorted(words []string) string {
	slices.Sort(words)
	return strings.Join(words, " ")
}
