package config

// maxName bounds the length of a rule's name.
const maxName = 64
