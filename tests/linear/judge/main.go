// nova_linear judges whether what concurrent clients saw of keys that several of them write is linearizable: each key is a register
// with put, delete, get and compare-and-swap. The search is Porcupine's.
//
//	nova_linear FILE...
//
// A line of a file is one operation; times are of one clock, in any unit:
//
//	CLIENT CALL RETURN KEY put VALUE
//	CLIENT CALL RETURN KEY delete
//	CLIENT CALL RETURN KEY get VALUE                     "-": there was none
//	CLIENT CALL RETURN KEY cas EXPECTED DESIRED yes|no   "-": no value
//
// RETURN "-" is an outcome that nobody knows: the operation may take effect at any time after CALL, or never (a cas then has no last
// word). Operations that were refused are left out: where one has an effect, a get returns a value that nothing wrote.
//
// Exits with 0 where all is linearizable, with 1 where a key is not, with 2 where a file cannot be read or holds nothing, with 3
// where the search took too long to tell.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	none      = "-" // no value, no return
	searchFor = 2 * time.Minute
)

type input struct {
	op                string
	expected, desired string // a put's and a cas's
}

// A get's value; a cas's yes, no or "-" (unknown).
type output string

var register = porcupine.Model{
	Init: func() interface{} { return none },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		value, i, o := state.(string), in.(input), out.(output)
		switch i.op {
		case "get":
			return string(o) == value, value
		case "cas":
			swaps := value == i.expected
			if o != none && swaps != (o == "yes") {
				return false, value
			}
			if !swaps {
				return true, value
			}
		}
		return true, i.desired
	},
}

type history struct {
	operations []porcupine.Operation
	lines      []string
}

func parse(line string) (key string, op porcupine.Operation, err error) {
	words := strings.Fields(line)
	if len(words) < 5 {
		return "", op, fmt.Errorf("too few words")
	}
	if op.ClientId, err = strconv.Atoi(words[0]); err != nil {
		return "", op, err
	}
	if op.Call, err = strconv.ParseInt(words[1], 10, 64); err != nil {
		return "", op, err
	}
	known := words[2] != none
	if !known {
		op.Return = math.MaxInt64
	} else if op.Return, err = strconv.ParseInt(words[2], 10, 64); err != nil {
		return "", op, err
	}
	key = words[3]
	arguments := words[5:]
	in, out := input{op: words[4], expected: none, desired: none}, output(none)
	wanted := map[string]int{"put": 1, "delete": 0, "get": 1, "cas": 3}
	n, is := wanted[in.op]
	if is && in.op == "cas" && !known {
		n = 2
	}
	if !is || len(arguments) != n || (in.op == "get" && !known) || op.Return < op.Call {
		return "", op, fmt.Errorf("no such operation")
	}
	switch in.op {
	case "put":
		in.desired = arguments[0]
	case "get":
		out = output(arguments[0])
	case "cas":
		in.expected, in.desired = arguments[0], arguments[1]
		if known {
			out = output(arguments[2])
			if out != "yes" && out != "no" {
				return "", op, fmt.Errorf("neither yes nor no")
			}
		}
	}
	op.Input, op.Output = in, out
	return key, op, nil
}

func read(path string, keys map[string]*history) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		key, op, err := parse(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %v: %s", path, n, err, line)
		}
		if keys[key] == nil {
			keys[key] = &history{}
		}
		keys[key].operations = append(keys[key].operations, op)
		keys[key].lines = append(keys[key].lines, line)
	}
	return lines.Err()
}

func main() {
	keys := map[string]*history{}
	for _, path := range os.Args[1:] {
		if err := read(path, keys); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	if len(keys) == 0 {
		fmt.Fprintln(os.Stderr, "usage: nova_linear FILE...   (of at least one operation)")
		os.Exit(2)
	}
	operations, unknown, code := 0, 0, 0
	for key, h := range keys {
		operations += len(h.operations)
		for _, op := range h.operations {
			if op.Return == math.MaxInt64 {
				unknown++
			}
		}
		switch porcupine.CheckOperationsTimeout(register, h.operations, searchFor) {
		case porcupine.Illegal:
			fmt.Printf("not linearizable: %s\n", key)
			order := make([]int, len(h.lines))
			for i := range order {
				order[i] = i
			}
			sort.SliceStable(order, func(a, b int) bool {
				return h.operations[order[a]].Call < h.operations[order[b]].Call
			})
			for _, i := range order {
				fmt.Println("  " + h.lines[i])
			}
			code = 1
		case porcupine.Unknown:
			fmt.Printf("undecided after %v: %s, %d operations\n", searchFor, key, len(h.operations))
			if code == 0 {
				code = 3
			}
		}
	}
	if code == 0 {
		fmt.Printf("linearizable: %d operations of %d keys, %d of unknown outcome\n", operations, len(keys), unknown)
	}
	os.Exit(code)
}
