package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/mcp"
)

// In a process of a test server this variable makes it one that sends what its calls say. Its value is the JSON of the list of tools, or
// empty for the tools say and once.
const rawVariable = "LASH_TEST_RAW"

// In a process of such a server this variable makes it end, or stay silent, until initialize; or refuse versions but the oldest.
const strictVariable = "LASH_TEST_STRICT"

// In a process of such a server this variable makes it end after an answer to a call.
const onceVariable = "LASH_TEST_ONCE"

// rawTools are the tools of a server that sends what its calls say.
const rawTools = `[{"name":"say","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"once","inputSchema":{"type":"object"}}]`

// saying are the arguments of a call.
type saying struct {
	Lines  []string `json:"lines"`            // that the server sends, where $ID stands for the id of the call, and $N for the number of the line
	Times  int      `json:"times,omitempty"`  // how often it sends them; 0: once
	Silent bool     `json:"silent,omitempty"` // no answer follows
	Errors string   `json:"errors,omitempty"` // that the server prints to its standard error, as often
}

// rawServer is a server of an earlier version of the protocol, with the tools of a list. It sends what its calls say.
func rawServer(in io.Reader, out io.Writer, file string) {
	tools, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	buffered := bufio.NewWriter(out)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	n, initialized := 0, false
	for first := true; lines.Scan(); first = false {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version   string `json:"protocolVersion"`
				Arguments saying `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			return
		}
		answer := func(result string) {
			_, _ = fmt.Fprintf(buffered, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
		}
		if first && m.Method != "initialize" && os.Getenv(strictVariable) == "ends" {
			os.Exit(1)
		}
		initialized = initialized || m.Method == "initialize"
		switch {
		case !initialized && os.Getenv(strictVariable) == "silent":
		case m.Method == "initialize" && os.Getenv(strictVariable) == "older" && m.Params.Version != "2024-11-05":
			_, _ = fmt.Fprintf(buffered, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05"],"requested":%q}}}`+"\n", m.ID, m.Params.Version)
		case m.Method == "initialize" && os.Getenv(strictVariable) == "older":
			answer(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`)
		case m.Method == "initialize":
			answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{},"prompts":{}},"serverInfo":{"name":"raw","version":"1"}}`)
		case m.Method == "tools/list":
			answer(`{"tools":` + string(tools) + `}`)
		case m.Method == "tools/call":
			logRun(os.Getenv(runsVariable), "call")
			said := m.Params.Arguments
			for range max(said.Times, 1) {
				for _, line := range said.Lines {
					n++
					_, _ = io.WriteString(buffered, strings.NewReplacer("$ID", string(m.ID), "$N", fmt.Sprint(n)).Replace(line)+"\n")
				}
				if said.Errors != "" {
					_, _ = fmt.Fprintln(os.Stderr, said.Errors)
				}
			}
			if said.Times > 0 {
				_ = buffered.Flush()
				logRun(os.Getenv(runsVariable), "said")
			}
			if !said.Silent {
				answer(`{"content":[{"type":"text","text":"said"}]}`)
			}
		case m.Method != "" && len(m.ID) > 0:
			_, _ = fmt.Fprintf(buffered, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
		}
		_ = buffered.Flush()
		if m.Method == "tools/call" && os.Getenv(onceVariable) != "" {
			return
		}
	}
}

// raw is a server that sends what its calls say, with a list of tools.
func (s *setting) raw(tools string) mcp.Server {
	server := s.own("srv")
	server.Env[rawVariable] = filepath.Join(s.T.TempDir(), "tools")
	runtest.WantError(s.T, "tools", os.WriteFile(server.Env[rawVariable], []byte(tools), 0o600), nil)
	server.Timeout = time.Minute
	return server
}

// sayingOf are the arguments of a call.
func sayingOf(s saying) string {
	data, _ := json.Marshal(&s) // texts and numbers
	return string(data)
}
