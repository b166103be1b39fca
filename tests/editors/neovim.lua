-- Run by test_neovim.py inside Neovim: does what a user does with a file and writes down what the user sees.

local file, result = vim.env.TORCHLINT_FILE, vim.env.TORCHLINT_RESULT
local seen = {}

local function wait_for(what, condition)
  if not vim.wait(60000, condition, 20) then
    seen.failed = "waited in vain for " .. what
    error(seen.failed)
  end
end

local function findings()
  return vim.tbl_map(function(finding)
    return { code = finding.code, line = finding.lnum, column = finding.col, message = finding.message }
  end, vim.diagnostic.get(0))
end

local function run()
  vim.cmd.edit(file)
  wait_for("findings", function() return #vim.diagnostic.get(0) > 0 end)
  seen.client = vim.lsp.get_clients({ bufnr = 0 })[1].name
  seen.pulls = vim.lsp.get_clients({ bufnr = 0 })[1]:supports_method("textDocument/diagnostic")
  seen.findings = findings()

  local first = vim.diagnostic.get(0)[1]
  vim.api.nvim_win_set_cursor(0, { first.lnum + 1, first.col + 2 })
  vim.lsp.buf.hover()
  local page
  wait_for("the hover window", function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= "" then
        page = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
      end
    end
    return page ~= nil
  end)
  seen.hover = table.concat(page, "\n")

  -- Typing above the finding moves it.
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { "# 😀 typed above" })
  wait_for("the moved finding", function()
    local now = vim.diagnostic.get(0)
    return #now == 1 and now[1].lnum == first.lnum + 1
  end)
  seen.moved = findings()

  local before = vim.b.changedtick
  vim.api.nvim_win_set_cursor(0, { first.lnum + 2, first.col + 2 })
  vim.lsp.buf.code_action({ apply = true, filter = function(action) return action.isPreferred == true end })
  wait_for("the quick fix", function() return vim.b.changedtick > before end)
  wait_for("the end of the finding", function() return #vim.diagnostic.get(0) == 0 end)
  seen.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")

  seen.messages = vim.fn.execute("messages")
  local client = vim.lsp.get_clients({ bufnr = 0 })[1]
  client:stop()
  wait_for("the end of the server", function() return client:is_stopped() end)
end

local ok, problem = xpcall(run, debug.traceback)
if not ok then
  seen.failed = tostring(problem)
end
vim.fn.writefile({ vim.json.encode(seen) }, result)
vim.cmd("qall!")
