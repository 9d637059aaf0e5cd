package deploy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// allowed asks the instances in turn for tokens of a key, and counts those that it gets.
func allowed(t *testing.T, fleet []*process, key string, requests int) (n int) {
	t.Helper()
	for i := range requests {
		resp, err := http.Post(fleet[i%len(fleet)].public+"/rate/"+key, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
			n++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("POST /rate/%s: %s", key, resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	return n
}

// imageCommand returns the command of the image, with each flag and its value as one word.
func imageCommand(t *testing.T) (args []string) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	if err := json.Unmarshal(regexp.MustCompile(`(?m)^CMD (.*)$`).FindSubmatch(text)[1], &words); err != nil {
		t.Fatal(err)
	}
	for _, word := range words {
		if last := len(args) - 1; last >= 0 && strings.HasPrefix(args[last], "--") && !strings.HasPrefix(word, "--") {
			args[last] += "=" + word
			continue
		}
		args = append(args, word)
	}
	if !strings.Contains(string(text), "\nENV PORT=8080\n") {
		t.Error("the image has another port than GoCC")
	}
	return args
}

// A StatefulSet of GoCC runs weir if its image changes, and its limits hold over the fleet.
func TestFromGoCC(t *testing.T) {
	text, err := os.ReadFile("testdata/gocc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := decode(t, []string{string(text)})
	w := &o.workloads[0]
	w.container().Args = imageCommand(t)
	ports := freePorts(t, int(*w.replicas))
	hosts := peerHosts(w, ports)
	var fleet []*process
	for i, port := range ports {
		c := contain(t, o, w, podName(w, i), port, hosts)
		c.env = append(c.env, "WEIR_LISTEN="+port) // instead of PORT, which is a port of all addresses
		if err := os.MkdirAll(c.dir+"/var/lib/weir", 0o755); err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, c.start(t))
	}
	client := &http.Client{}
	for _, p := range fleet {
		awaitReady(t, client, p)
		awaitPeers(t, p, len(fleet))
		if resp, err := client.Get(p.public + "/healthz"); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("/healthz: %v, %v", resp, err)
		}
	}
	client.CloseIdleConnections()
	for _, key := range []string{"a", "b", "c", "d"} {
		if n := allowed(t, fleet, key, 60); n != 20 {
			t.Errorf("%d of 60 requests for %s are allowed: want 20", n, key)
		}
	}
	for _, p := range fleet {
		p.stop(t)
	}
}

// awaitPeers waits until an instance sees a number of peers, itself included.
func awaitPeers(t *testing.T, p *process, n int) {
	t.Helper()
	want := fmt.Sprintf("\nweir_peer_members{name=\"serve\",status=\"live\"} %d\n", n)
	for range 300 {
		resp, err := http.Get(p.admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), want) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s: not %d peers", p.admin, n)
}
