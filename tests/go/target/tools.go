// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Keeps the reference fake server in go.mod, so that both programs are of one version.
package main

import _ "github.com/openconfig/gnmi/testing/fake/gnmi/cmd/fake_server"
