package redisscript

import _ "embed"

// Nodes is the script that counts the nodes that share a server and keeps their secret, in two
// keys. Its arguments are the id of a node, for how many microseconds it counts, and four numbers
// below 2^32, its secret. Its reply is the number of nodes and the four numbers of the secret
// that all of them have.
//
//go:embed nodes.lua
var Nodes string
