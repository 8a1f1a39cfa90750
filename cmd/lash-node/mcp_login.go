package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/workers/mcp"
	"github.com/lash-go/lash/workers/mcp/oauth"
)

type mcpLoginCmd struct {
	Name      string   `arg:"" help:"Server, as the file names it."`
	MCP       string   `name:"mcp" required:"" help:"File of the servers, as for serve." placeholder:"FILE" type:"path"`
	Scope     []string `help:"Scope to ask for, beside those that the server names. Repeatable." placeholder:"SCOPE"`
	NoBrowser bool     `name:"no-browser" help:"Print the address only."`
}

func (*mcpLoginCmd) Help() string {
	return `A browser opens, in which you allow lash to use the server. The address is printed, too: where the browser is on another machine, open it there, and
paste here the address at which it ends, whose page cannot be shown. The tokens are written to FILE.tokens/NAME.json, which only you may read:
run this as the user of the nodes, beside their copy of FILE. Nodes that run use them at once, and renew them.

Where a machine logs in by itself, no login is needed: client_id, client_secret and "machine": true in the server's lash.oauth.

Exit codes: 0 logged in, 2 it could not be done.`
}

// Run logs in.
func (c *mcpLoginCmd) Run(ctx context.Context, s *streams) error {
	server, err := c.server(s)
	if err != nil {
		return err
	}
	server.OAuth.Scopes = append(server.OAuth.Scopes, c.Scope...)
	server.OAuth.File = serve.MCPTokens(c.MCP, server)
	person := oauth.Person{Show: func(address string) error {
		s.Printf("allow lash to use %s at this address, or paste here the address at which a browser elsewhere ends:\n%s", c.Name, address)
		if !c.NoBrowser {
			browse(ctx, s, address)
		}
		return nil
	}}
	if s.In != nil {
		lines := make(chan string)
		person.Pasted = lines
		go func() { // ends with the input, or with the process
			defer close(lines)
			for in := bufio.NewScanner(s.In); in.Scan(); {
				select {
				case lines <- strings.TrimSpace(in.Text()):
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	switch err := oauth.Login(ctx, server.URL, server.OAuth, person); {
	case errors.Is(err, oauth.ErrNoLogin):
		return fmt.Errorf("MCP server %s: %w, as far as its first message: one that wants it later says so in the log of a node, and then this command knows it", c.Name, err)
	case err != nil:
		return fmt.Errorf("MCP server %s: %s", c.Name, server.Redacted(err))
	}
	_, err = fmt.Fprintf(s.Out, "logged in: the tokens for %s are in %s\n", c.Name, server.OAuth.File)
	return err
}

// server finds the server in the file.
func (c *mcpLoginCmd) server(s *streams) (*mcp.Server, error) {
	data, err := program.ReadFile(c.MCP, program.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("--mcp: %w", err)
	}
	list, err := mcp.Parse(data, s.Env, program.ReadSetting)
	if err != nil {
		return nil, fmt.Errorf("--mcp %s: %w", c.MCP, err)
	}
	at := slices.IndexFunc(list, func(s mcp.Server) bool { return s.Name == c.Name })
	switch {
	case at < 0:
		var names []string
		for i := range list {
			names = append(names, list[i].Name)
		}
		return nil, fmt.Errorf("--mcp %s has no server %q: it has %s", c.MCP, c.Name, strings.Join(names, ", "))
	case list[at].URL == "":
		return nil, fmt.Errorf("server %s is a command, which logs in by itself: its env in %s has what it needs", c.Name, c.MCP)
	case list[at].OAuth.Machine:
		return nil, fmt.Errorf("server %s has client credentials: no login is needed", c.Name)
	}
	return &list[at], nil
}

// browse opens an address with the program of BROWSER, or that of the desktop. Without one the person opens it.
func browse(ctx context.Context, s *streams, address string) {
	for _, name := range []string{s.Env("BROWSER"), "xdg-open", "open"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			if browser := exec.CommandContext(ctx, path, address); browser.Start() == nil { //nolint:gosec // the user's
				go func() { _ = browser.Wait() }() // ends with the browser, or with the command
				return
			}
		}
	}
}
