package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// weigh asks for a million keys, of windows and of token buckets.
func weigh(weir string) error {
	for _, algorithm := range []string{"fixed", "gcra"} {
		p, err := startWeir(weir, "--listen", "--window-millis", "3600000", "--algorithm", algorithm)
		if err != nil {
			return err
		}
		err = fill("http://"+p.Addr+"/rate", 1_000_000)
		bytes, residentErr := p.Resident()
		p.Stop()
		if err := errors.Join(err, residentErr); err != nil {
			return err
		}
		fmt.Printf("a million keys, %-6s %d MiB resident\n", algorithm+":", bytes>>20)
	}
	return nil
}

// fill asks for keys, in batches.
func fill(url string, keys int) error {
	const at = 10_000
	for from := 0; from < keys; from += at {
		resp, err := http.Post(url, "application/json", bytes.NewReader(requests(from, at)))
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var answer struct {
			OK bool `json:"ok"`
		}
		if err := errors.Join(err, json.Unmarshal(body, &answer)); err != nil || !answer.OK {
			return fmt.Errorf("%s: %.200s: %w", resp.Status, body, err)
		}
	}
	return nil
}

// requests is a batch of n keys.
func requests(from, n int) []byte {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf(`{"key":"user-%07d"}`, from+i)
	}
	return []byte(`{"requests":[` + strings.Join(keys, ",") + "]}")
}
