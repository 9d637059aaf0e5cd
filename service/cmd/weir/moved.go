package main

const laboratory = ": go install github.com/weir-go/weir/service/lab/cmd/weirlab@latest"

// moved are the commands that weirlab has.
var moved = map[string]string{
	"demo": "weirlab demo" + laboratory, "load": "weirlab load" + laboratory, "load-compare": "weirlab load compare" + laboratory,
	"origin": "weirlab origin" + laboratory, "sim": "weirlab sim" + laboratory, "arena": "weirlab arena" + laboratory, "lab": "weirlab sla" + laboratory,
}
