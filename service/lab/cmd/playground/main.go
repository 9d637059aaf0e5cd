//go:build js

// Command playground is the simulator of the site's playground: weirlab sim, compiled to WebAssembly. It defines
// the function weirSimulate(name, text) in JavaScript. name is the file name that errors and results have, and text
// is a scenario file. The function returns {json}, what weirlab sim --json prints, or {error}.
package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall/js"

	"github.com/weir-go/weir/service/lab/internal/figure"
	"github.com/weir-go/weir/service/lab/internal/scenario"
)

func main() {
	js.Global().Set("weirSimulate", js.FuncOf(func(_ js.Value, args []js.Value) any {
		text, err := simulate(args[0].String(), args[1].String())
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		return map[string]any{"json": text}
	}))
	select {}
}

func simulate(name, content string) (string, error) {
	file, err := scenario.Parse(name, []byte(content))
	if err != nil {
		return "", err
	}
	if file.Fleets != nil {
		return "", fmt.Errorf("%s: a fleet is too large for a browser: weirlab sim has it", name)
	}
	figures := figure.Of(name, file, "", nil)
	if err := figure.Simulate(context.Background(), figures, nil, new(atomic.Int64), nil); err != nil {
		return "", err
	}
	var text strings.Builder
	err = figure.PrintJSON(&text, figures)
	return text.String(), err
}
